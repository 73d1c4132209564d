//go:build race

package task_test

// raced says that the race detector is on, which makes all slow.
const raced = true
