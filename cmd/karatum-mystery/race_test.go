//go:build race

package main

// raceDetector says whether it watches.
const raceDetector = true
