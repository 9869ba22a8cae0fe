// Package page has the addresses of the documentation. The package decides no text.
package page

import "strings"

// Root is the address of the documentation on the default branch.
const Root = "https://github.com/kamino-dev/kamino/blob/main/docs/"

// Addresses of pages.
const (
	ClusterAPI = Root + "reference/cluster-api.md"
	Policy     = Root + "reference/policy.md"
	History    = Root + "tasks/history.md"
	Kured      = Root + "tasks/before-you-start.md#kured"
	Moving     = Root + "tasks/moving.md"
	Reasons    = Root + "troubleshooting/reasons.md"
)

// Reason returns the address of a reason's entry, with its meaning and remedy.
func Reason(name string) string { return Reasons + "#" + strings.ToLower(name) }
