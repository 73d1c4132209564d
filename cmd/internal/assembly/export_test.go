package assembly

// What tests see of the file of operator secrets.
var (
	ParseSecrets = parseSecrets
	AddSecret    = addSecret
)
