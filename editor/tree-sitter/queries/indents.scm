[(block) (list) (set) (parameters) (call)] @indent.begin
["}" "]" ")"] @indent.end
