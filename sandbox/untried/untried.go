// Package untried asks for captures whose versions no pool tries before it uses them: those of tests, stories and
// measurements that are about something else. It is the one place that says so.
package untried

import "github.com/kamino-dev/kamino/api/v1alpha1"

// Capture is how the kamino command is asked to capture a node, with more flags.
func Capture(node string, flags ...string) []string {
	return append([]string{"capture", node, "--trial", string(v1alpha1.TrialOff)}, flags...)
}

// Settings of a policy in YAML, beside others: `Off` without quotes would be a boolean.
const Settings = `trial: {mode: "` + string(v1alpha1.TrialOff) + `"}`

// Policy is a policy's settings as values of Kamino's chart.
func Policy() map[string]any {
	return map[string]any{"trial": map[string]any{"mode": string(v1alpha1.TrialOff)}}
}
