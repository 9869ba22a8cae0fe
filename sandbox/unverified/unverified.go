// Package unverified returns the flags and settings for captures without a trial (mode Off), and with the method that Kamino chooses.
// Tests, demos and measurements with another subject use the package.
package unverified

import "github.com/kamino-dev/kamino/api/v1alpha1"

// Capture returns the arguments with which the kamino command captures a node, followed by more flags.
func Capture(node string, flags ...string) []string {
	return append([]string{"capture", node, "--trial", string(v1alpha1.TrialOff)}, flags...)
}

// Settings are a policy's settings in YAML, next to others. `Off` without quotes would be a boolean.
const Settings = `trial: {mode: "` + string(v1alpha1.TrialOff) + `"}`

// Policy returns a policy's settings as values of Kamino's chart.
func Policy() map[string]any {
	return map[string]any{"trial": map[string]any{"mode": string(v1alpha1.TrialOff)}}
}
