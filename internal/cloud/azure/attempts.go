package azure

import (
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// chainHeader begins the list of tried credentials in azidentity's error.
const chainHeader = "Attempted credentials:"

// attempts returns the tried credentials with reasons, and how to choose a credential; empty without a credential chain.
// Answers are reduced to the status, because the body comes from an unknown server.
func attempts(err error) string {
	_, list, chained := strings.Cut(err.Error(), chainHeader)
	if !chained {
		return ""
	}
	var tried []string
	for _, family := range strings.Split(list, "\n") {
		switch text := strings.TrimSpace(family); {
		case text == "":
		case strings.HasPrefix(family, "\t") && !strings.HasPrefix(family, "\t\t"):
			tried = append(tried, strings.TrimRight(text, ". "))
		case strings.HasPrefix(text, "RESPONSE ") && len(tried) > 0:
			tried[len(tried)-1] += ", answered " + strings.TrimPrefix(text, "RESPONSE ")
		}
	}
	if len(tried) == 0 {
		return ""
	}
	message := " (tried: " + strings.Join(tried, "; ") + ")"
	var refused *azidentity.AuthenticationFailedError
	if errors.As(err, &refused) && strings.HasPrefix(tried[len(tried)-1], "ManagedIdentityCredential") {
		message += "; without a managed identity on this machine, use only your `az` login with --azure-credential=cli"
	}
	return message
}
