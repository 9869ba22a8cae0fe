package azure

import (
	"fmt"
	"time"

	"github.com/kamino-dev/kamino/sandbox/assertion"
)

// Federation is a workload identity: tokens of this issuer and subject authenticate the service principal. The
// default audience is "api://AzureADTokenExchange".
type Federation = assertion.Federation

// badAssertion is why an assertion is not accepted, in Entra's words.
type badAssertion struct {
	code int
	text string
}

func (b *badAssertion) description() string { return fmt.Sprintf("AADSTS%d: %s", b.code, b.text) }

// checkAssertion accepts a token of a registered issuer and subject with a good signature: nil.
func (s logins) checkAssertion(token string) *badAssertion {
	claims, refused := assertion.Check(token, s.config.Federated, "api://AzureADTokenExchange", time.Now())
	if refused == nil {
		return nil
	}
	switch refused.Reason {
	case assertion.Malformed:
		return &badAssertion{50027, refused.Text}
	case assertion.Audience:
		return &badAssertion{700212, fmt.Sprintf("No matching federated identity record found for presented assertion audience '%v'.", claims.Audience)}
	case assertion.Expired:
		return &badAssertion{700024, "Client assertion is not within its valid time range."}
	case assertion.Keys:
		return &badAssertion{50166, refused.Text}
	case assertion.Signature:
		return &badAssertion{700027, "The certificate or key used to sign the client assertion is not registered, or the signature is invalid."}
	case assertion.Untrusted:
	}
	return &badAssertion{700211, fmt.Sprintf("No matching federated identity record found for presented assertion issuer '%s' and subject '%s'.",
		claims.Issuer, claims.Subject)}
}
