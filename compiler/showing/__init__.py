"""Pages and drawings for people: a spec, a difference, a comparison and a plan as HTML, Markdown, SVG, Mermaid and
DOT."""
