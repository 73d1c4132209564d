package mcp

// ParseResult is how the result of a call is read.
var ParseResult = parseResult
