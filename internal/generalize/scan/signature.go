package scan

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
)

// Kind is the class of a finding.
type Kind string

// The kinds of findings.
const (
	PrivateKey Kind = "private key"
	Token      Kind = "token"
	Identity   Kind = "identity"
)

// before and after are how many bytes around an anchor may belong to what is found there. The longest is
// the text of an RSA key of 8192 bits (6.4 kB), and that in base64 once more.
const (
	before = 1 << 10
	after  = 12 << 10
)

// signature is a form of secret: an anchor that is quick to look for, and an expression that says whether
// the text around it is one.
type signature struct {
	kind Kind
	// what it is, for people.
	what string
	// anchor must be part of every match.
	anchor string
	// match is tried on the text that begins up to back bytes before the anchor and ends reach bytes after
	// its begin (zero: as far as there is text).
	back, reach int
	match       *regexp.Regexp
	// keep says whether a match is meant, where an expression cannot tell.
	keep func(match []byte) bool
	// random secrets cannot be guessed from their hash, so that the hash may be given out.
	random bool
}

// signatures are the forms that are looked for. Each has been tried against its look-alikes: a marker
// without a key (programs and manuals are full of them), a public certificate, an example with dots. They are
// compiled when a search begins: most commands make none.
var signatures = sync.OnceValue(func() []signature {
	return []signature{
		{
			kind: PrivateKey, what: "private key (PEM)", anchor: "PRIVATE KEY-----", back: 32, random: true,
			// The body may stand in JSON or YAML, with \n for a line's end, or indented.
			match: regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY-----(?:\\r|\\n|\s)+(?:[A-Za-z-]+: [^\r\n]*(?:\\r|\\n|\s)+)*(?:[A-Za-z0-9+/=]{16,}(?:\\r|\\n|\s)*)+`),
			keep:  func(match []byte) bool { return len(bodyOf(match)) >= 60 },
		},
		{
			// "-----BEGIN" in base64, as kubeconfigs and Secrets hold keys; certificates begin alike.
			kind: PrivateKey, what: "private key (PEM in base64)", anchor: "LS0tLS1CRUdJTi", random: true,
			match: regexp.MustCompile(`\ALS0tLS1CRUdJTi[A-Za-z0-9+/]{40,}={0,2}`),
			keep: func(match []byte) bool {
				head, err := base64.StdEncoding.DecodeString(string(match[:48]))
				return err == nil && strings.Contains(string(head), "PRIVATE KEY")
			},
		},
		{
			kind: Token, what: "JSON web token", anchor: "eyJ", random: true,
			match: regexp.MustCompile(`\AeyJ[A-Za-z0-9_-]{12,}\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{40,}`),
			keep:  signedToken,
		},
		{
			kind: Token, what: "shared access signature", anchor: "sig=", back: 600, reach: 700, random: true,
			match: regexp.MustCompile(`(?:sv=20\d\d-\d\d-\d\d&[^\s"'<>]{0,500}?sig=[A-Za-z0-9%/+]{40,128}(?:=|%3[dD])?|sig=[A-Za-z0-9%/+]{40,128}(?:=|%3[dD])?[^\s"'<>]{0,500}?&sv=20\d\d-\d\d-\d\d)`),
		},
		{
			kind: Token, what: "storage account key", anchor: "AccountKey=", random: true,
			match: regexp.MustCompile(`\AAccountKey=[A-Za-z0-9+/]{86}==`),
		},
		{
			kind: Token, what: "bootstrap token", anchor: "oken", back: 1, reach: 48,
			match: regexp.MustCompile(`[Tt]oken["']?\s*[:= ]\s*["']?[a-z0-9]{6}\.[a-z0-9]{16}(?:[^a-z0-9]|$)`),
			// The example of kubeadm's documentation and of its default configuration.
			keep: func(match []byte) bool { return !strings.Contains(string(match), "abcdef.0123456789abcdef") },
		},
		{
			kind: Token, what: "bearer token", anchor: "earer ", back: 32, reach: 2048,
			match: regexp.MustCompile(`[Aa]uthorization["']?\s*[:=]\s*["']?[Bb]earer [A-Za-z0-9._~+/-]{24,}`),
		},
		{
			kind: Token, what: "registry credential", anchor: `"auth"`,
			match: regexp.MustCompile(`\A"auth"\s*:\s*"[A-Za-z0-9+/]{8,}={0,2}"`),
			keep:  userAndPassword,
		},
		{
			kind: Token, what: "registry credential", anchor: `"identitytoken"`,
			match: regexp.MustCompile(`\A"identitytoken"\s*:\s*"[^"\s]{16,}"`),
		},
		{
			kind: Token, what: "service principal's secret", anchor: `lientSecret"`, back: 1, reach: 256,
			match: regexp.MustCompile(`[cC]lientSecret"\s*:\s*"[^"\s]{12,200}"`),
		},
		{
			kind: Token, what: "AWS secret key", anchor: "aws_secret_access_key", random: true,
			match: regexp.MustCompile(`\Aaws_secret_access_key\s*=\s*[A-Za-z0-9/+]{40}`),
		},
		{
			kind: Token, what: "GitHub token", anchor: "ghp_", random: true,
			match: regexp.MustCompile(`\Aghp_[A-Za-z0-9]{36}`),
		},
	}
})

// bodyOf is the base64 of a PEM text, whatever separates its lines. Two copies of a key that differ in
// white space have one body.
func bodyOf(match []byte) string {
	_, body, found := strings.Cut(string(match), "PRIVATE KEY-----")
	if !found {
		return string(match)
	}
	body = strings.NewReplacer(`\n`, "", `\r`, "", "\n", "", "\r", "", " ", "", "\t", "").Replace(body)
	if i := strings.LastIndexByte(body, ':'); i >= 0 { // headers of an encrypted key
		body = body[i+1:]
	}
	return strings.TrimRight(body, "-")
}

// signedToken says whether the first part of a token is the header of one that is signed.
func signedToken(match []byte) bool {
	header, _, _ := strings.Cut(string(match), ".")
	decoded, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return false
	}
	var fields struct{ Alg string }
	return json.Unmarshal(decoded, &fields) == nil && fields.Alg != "" && fields.Alg != "none"
}

// userAndPassword says whether the value of a registry's "auth" is what Docker writes there.
func userAndPassword(match []byte) bool {
	value := strings.Split(string(match), `"`)[3]
	decoded, err := base64.StdEncoding.DecodeString(value)
	user, password, found := strings.Cut(string(decoded), ":")
	return err == nil && found && user != "" && password != ""
}

// fingerprint is the SHA-256 of a secret that cannot be guessed from it, and empty for the others.
func (s *signature) fingerprint(match []byte) string {
	if !s.random {
		return ""
	}
	return sum([]byte(bodyOf(match)))
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}
