package azure

import (
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// chainSays opens the list of what a chain of credentials has tried, in the identity library's own error.
const chainSays = "Attempted credentials:"

// attempts says which credentials a chain has tried and why each gave no token, and how to choose one where the chain
// stopped at something that answered in the place of a VM's identity. Empty if there was no chain. Answers are named by
// their status only: what a stranger sent is nobody's business.
func attempts(err error) string {
	_, list, chained := strings.Cut(err.Error(), chainSays)
	if !chained {
		return ""
	}
	var tried []string
	for _, line := range strings.Split(list, "\n") {
		switch text := strings.TrimSpace(line); {
		case text == "":
		case strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, "\t\t"):
			tried = append(tried, strings.TrimRight(text, ". "))
		case strings.HasPrefix(text, "RESPONSE ") && len(tried) > 0:
			tried[len(tried)-1] += ", answered " + strings.TrimPrefix(text, "RESPONSE ")
		}
	}
	if len(tried) == 0 {
		return ""
	}
	said := " (tried: " + strings.Join(tried, "; ") + ")"
	var refused *azidentity.AuthenticationFailedError
	if errors.As(err, &refused) && strings.HasPrefix(tried[len(tried)-1], "ManagedIdentityCredential") {
		said += "; if this machine has no identity of its own, choose your `az` login alone with --azure-credential=cli"
	}
	return said
}
