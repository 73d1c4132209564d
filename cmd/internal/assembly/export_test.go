package assembly

// What tests see of the files of operator secrets, and of keys that pay.
var (
	ParseSecrets = parseSecrets
	AddSecret    = addSecret
	KeysThatPay  = Config.keysThatPay
)

// Traced is what a process runs its work below.
var Traced = (*Programme).traced
