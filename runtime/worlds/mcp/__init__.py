"""An MCP server's tools as an environment (`world`), a session with one (`connection`), and one that serves an
environment of ours (`serving`). The package `mcp` is imported when the first session is opened."""
