package postgres

var Linger = linger
