package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// tokenForms are tokens of clusters, clouds and registries. The rules of gitleaks cover other services.
func tokenForms() []signature {
	return []signature{
		{
			kind: Token, what: "JSON web token", anchors: []string{"eyJ"}, random: true, inside: 60,
			match: expression(`\AeyJ[A-Za-z0-9_-]{12,}\.eyJ[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]{40,}`),
			keep:  func(whole, _ []byte) bool { return signedToken(whole) },
		},
		{
			kind: Token, what: "shared access signature", anchors: []string{"sig="}, back: 600, reach: 700, random: true,
			match: expression(`(?:(?:<code>[^\s"'<>]{0,300})?sv=20\d\d-\d\d-\d\d&[^\s"'<>]{0,500}?sig=[A-Za-z0-9%/+]{40,128}(?:=|%3[dD])?|sig=[A-Za-z0-9%/+]{40,128}(?:=|%3[dD])?[^\s"'<>]{0,500}?&sv=20\d\d-\d\d-\d\d)`),
			keep:  func(whole, _ []byte) bool { return !bytes.HasPrefix(whole, []byte("<code>")) }, // an example in a manual
		},
		{
			kind: Token, what: "storage or service bus key", back: 6, reach: 160, random: true, group: 1,
			anchors: []string{"AccountKey", "account_key", "account-key", "storage_key", "storage-key", "storagekey", "access_key", "access-key", "accesskey"},
			match:   expression(`(?i:secret)?(?i:AccountKey|account[_-]key|storage[_-]?key|access[_-]?key)["']?\s*[=:]\s*["']?([A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{43}=)`),
			keep:    func(whole, _ []byte) bool { return !bytes.EqualFold(whole[:min(len(whole), 6)], []byte("secret")) }, // a key of AWS
		},
		{
			kind: Token, what: "bootstrap token", anchors: []string{"token"}, reach: 48, random: true, group: 1,
			match: expression(`\A(?i:token)["']?\s*[:= ]\s*["']?([a-z0-9]{6}\.[a-z0-9]{16})(?:[^a-z0-9]|$)`),
			keep:  func(_, secret []byte) bool { return !exampleToken(string(secret)) },
		},
		{
			kind: Token, what: "bootstrap token", anchors: []string{"token-secret"}, reach: 64, random: true, group: 1, named: true,
			match: expression(`\A(?i:token-secret)["']?\s*[:=]\s*["']?([a-z0-9]{16})(?:[^a-z0-9]|$)`),
			keep:  func(_, secret []byte) bool { return !exampleToken("abcdef." + string(secret)) },
		},
		{
			kind: Token, what: "bearer token", anchors: []string{"bearer "}, back: 32, reach: 2048, random: true, group: 1,
			match: expression(`(?i:authorization)["']?\s*[:=]\s*["']?(?i:bearer) ([A-Za-z0-9._~+/-]{24,})`),
			keep:  func(_, secret []byte) bool { return varied(string(secret)) },
		},
		{
			kind: Password, what: "basic authorization", anchors: []string{"basic "}, back: 32, reach: 512, group: 1,
			match: expression(`(?i:authorization)["']?\s*[:=]\s*["']?(?i:basic) ([A-Za-z0-9+/]{8,}={0,2})`),
			keep:  func(_, secret []byte) bool { return userAndPassword(secret) },
		},
		{
			kind: Token, what: "registry credential", anchors: []string{`auth"`, "auth =", "auth=", "auth:", "auth'"}, back: 1, reach: 2048, group: 1,
			match: expression(`["'\s]auth["']?\s*[:=]\s*["']?([A-Za-z0-9+/]{8,}={0,2})(?:["'\s,]|$)`),
			keep:  func(_, secret []byte) bool { return userAndPassword(secret) },
		},
		{
			kind: Token, what: "registry credential", anchors: []string{"identitytoken", "registrytoken"}, back: 1, reach: 4096, random: true, group: 1,
			match: expression(`(?:\A|[^A-Za-z])(?i:identitytoken|registrytoken)["']?\s*[:=]\s*["']([^"'\s]{16,})["']`),
		},
		{
			kind: Token, what: "service principal's secret", anchors: []string{`ClientSecret"`}, reach: 256, group: 1,
			match: expression(`\A(?i:ClientSecret)"\s*:\s*"([^"\s]{12,200})"`),
			keep:  func(_, secret []byte) bool { return secretive(string(secret)) },
		},
		{
			kind: Token, what: "AWS secret key", anchors: []string{"secret_access_key", "secretaccesskey", "secret-access-key"}, reach: 128, random: true, group: 1,
			match: expression(`\A(?i:secret[_-]?access[_-]?key)\\?["']?\s*[=:]\s*\\?["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+]|$)`),
			keep:  func(_, secret []byte) bool { return !bytes.HasSuffix(secret, []byte("EXAMPLEKEY")) },
		},
		{
			kind: Token, what: "Docker Hub token", anchors: []string{"dckr_pat_", "dckr_oat_"}, random: true, inside: 30,
			match: expression(`\Adckr_[po]at_[A-Za-z0-9_-]{20,}`),
		},
		{
			kind: Token, what: "GitHub token", anchors: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, random: true, inside: 40,
			match: expression(`\Agh[pousr]_[A-Za-z0-9]{36}`),
			keep:  func(whole, _ []byte) bool { return varied(string(whole[4:])) },
		},
	}
}

// exampleToken recognizes the tokens of kubeadm's help and documentation: letters and digits in their order.
func exampleToken(token string) bool {
	id, secret, _ := strings.Cut(token, ".")
	for _, row := range []string{"0123456789abcdef0123456789abcdef", "1234567890abcdef1234567890abcdef", "12345678901234567890", "abcdefghijklmnopqrstuvwxyz"} {
		if id == "abcdef" && strings.Contains(row, secret) {
			return true
		}
	}
	return id == "abcdef" && secret == "abcdef0123456789" || !varied2(secret)
}

// varied2 distinguishes a short token from a few repeated characters.
func varied2(text string) bool {
	seen := map[rune]bool{}
	for _, c := range text {
		seen[c] = true
	}
	return len(seen) > 4
}

// signedToken reports whether the first part of a token is the header of a signed token.
func signedToken(match []byte) bool {
	header, _, _ := strings.Cut(string(match), ".")
	decoded, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return false
	}
	var fields struct{ Alg string }
	return json.Unmarshal(decoded, &fields) == nil && fields.Alg != "" && fields.Alg != "none"
}

// userAndPassword reports whether a base64 text is a name and a password, joined by a colon.
func userAndPassword(value []byte) bool {
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(value), "="))
	user, password, found := bytes.Cut(decoded, []byte(":"))
	return err == nil && found && printable(decoded) && len(user) > 0 && len(password) > 0 && !placeholder(string(password))
}

func printable(text []byte) bool {
	for _, c := range text {
		if c < 0x20 && c != '\n' && c != '\r' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

var placeholders = expression(`(?i)^[<\[{%*(]|^\$[a-z_({]|^(?:x+|\*+|\.+|-+|_+)$|example|placeholder|change[_-]?me|redacted|dummy|your[_-]?(?:password|passwd|secret|token|key)|^(?:user|username|pass|passwd|password|secret|token|string|none|null|nil|true|false|undefined|required|optional|prompt|default|foobar)$`)

// placeholder reports whether a value is a placeholder for a secret.
func placeholder(value string) bool { return placeholders().MatchString(value) }
