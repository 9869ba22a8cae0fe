package scan

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// pemBreak matches separators between the lines of a PEM text, also as escaped in JSON, YAML, URLs and XML, with quotes
// or comment signs.
const pemBreak = `(?:\\+[rnt]|%0[AaDd]|&#(?:10|13|x[AaDd]);|[\s"'+,;#>|*\\/-])`

// pemText matches a character of a PEM text's body, also as escaped in URLs and JSON.
const pemText = `(?:[A-Za-z0-9+/=]|%2[BbFf]|%3[Dd]|\\/|\\u00(?:2[bBfF]|3[dD]))`

// pemRest matches the rest of a line that a manual has broken at another width, before the next long line.
const pemRest = `(?:` + pemBreak + `{1,12}?` + pemText + `{1,15}` + pemBreak + `{1,12}` + pemText + `{16,})*`

// keyForms are private keys as text. Each form was tested against similar texts: a marker without a key (frequent in
// programs and manuals), a public certificate, an example with dots.
func keyForms() []signature {
	return []signature{
		{
			kind: PrivateKey, what: "private key (PEM)", anchors: []string{"PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"}, back: 40, random: true,
			match: expression(`-----BEGIN (?:[A-Z0-9]{2,12} ){0,2}PRIVATE KEY(?: BLOCK)?-----` + pemBreak + `{0,40}?` +
				`(?:[A-Za-z-]{3,20}: [^\r\n\\"']{0,120}` + pemBreak + `+?){0,6}?(?:` + pemBreak + `{0,40}?` + pemText + `{16,}` + pemRest + `)+`),
			keep: func(whole, _ []byte) bool {
				body := bodyOf(whole)
				return len(body) >= 60 && varied(body) && !strings.Contains(body, exampleMark)
			},
		},
		{
			// "-----BEGIN" in base64, as in kubeconfigs and Secrets. Certificates begin alike.
			kind: PrivateKey, what: "private key (PEM in base64)", anchors: []string{"LS0tLS1CRUdJTi"}, random: true,
			match: expression(`\ALS0tLS1CRUdJTi[A-Za-z0-9+/]{40,}={0,2}`),
			keep: func(whole, _ []byte) bool {
				head, err := base64.StdEncoding.DecodeString(string(whole[:48]))
				return err == nil && bytes.Contains(head, []byte("PRIVATE KEY"))
			},
		},
		{
			kind: PrivateKey, what: "private key (PuTTY)", anchors: []string{"PuTTY-User-Key-File-"}, random: true, group: 1,
			match: expression(`\APuTTY-User-Key-File-[123]: (?s:.*?)Private-Lines: \d+(?:\\r|\\n|\s)+([A-Za-z0-9+/=]{20,})`),
		},
		{
			kind: PrivateKey, what: "private key (SSH2)", anchors: []string{"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----"}, random: true, group: 1,
			match: expression(`\A---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\s+(?:[A-Za-z-]+: [^\r\n]*\s+)*([A-Za-z0-9+/=]{40,})`),
		},
		{
			kind: PrivateKey, what: "private key (age)", anchors: []string{"AGE-SECRET-KEY-1"}, random: true,
			match: expression(`\A(?i)AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}`),
			keep:  func(whole, _ []byte) bool { return varied(string(whole[16:])) },
		},
		{
			kind: PrivateKey, what: "private key (WireGuard)", anchors: []string{"PrivateKey", "PresharedKey", "private-key", "private_key"}, reach: 128, random: true, group: 1,
			match: expression(`\A(?i:Private[_-]?Key|Preshared[_-]?Key)["']?\s*[=:]\s*["']?([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)`),
		},
		{
			kind: PrivateKey, what: "private key (JSON web key)", anchors: []string{`"kty"`}, back: 2000, random: true,
			match: expression(`\{[^{}]*"kty"\s*:\s*"[A-Za-z]+"[^{}]*\}`),
			keep:  func(whole, _ []byte) bool { return privatePart().Match(whole) },
		},
		{
			kind: PrivateKey, what: "private key (GnuPG)", anchors: []string{"private-key"}, back: 16, reach: 400, random: true,
			match: expression(`\((?:(?:11:private-key|21:protected-private-key)\(\d+:(?:rsa|dsa|ecc|elg)\(\d+:[a-z-]+\d+:(?s:.{16})|` +
				`(?:protected-)?private-key\s+\((?:rsa|dsa|ecc|elg)\s+\([a-z]+\s+[#|][0-9A-Za-z+/]{16})`),
		},
	}
}

// exampleMark is what Amazon's documentation writes into its keys. A random text of the length of a key has it once in
// a billion times.
const exampleMark = "EXAMPLE"

var privatePart = expression(`"(?:d|k)"\s*:\s*"[A-Za-z0-9_-]{20,}={0,2}"`)

// varied distinguishes a key from an example with one repeated letter.
func varied(text string) bool {
	var seen [256]bool
	count := 0
	for i := range len(text) {
		if !seen[text[i]] {
			seen[text[i]] = true
			count++
		}
	}
	return count >= 8
}

var pemBreaks = expression(`\\+[rnt]|%0[AaDd]|&#(?:10|13|x[AaDd]);|[\s"',;#>|*\\-]`)

// bodyOf returns the base64 of a PEM text without separators, so that copies of a key with different white space are
// equal.
func bodyOf(match []byte) string {
	_, body, found := bytes.Cut(match, []byte("PRIVATE KEY"))
	if !found {
		return string(match)
	}
	body = bytes.TrimPrefix(body, []byte(" BLOCK"))
	if i := bytes.LastIndexByte(body, ':'); i >= 0 { // headers of a key
		if end := bytes.IndexAny(body[i:], "\r\n"); end >= 0 {
			body = body[i+end:]
		} else {
			body = body[i+1:]
		}
	}
	text := string(pemBreaks().ReplaceAll(body, nil))
	return strings.NewReplacer("%2B", "+", "%2b", "+", "%2F", "/", "%2f", "/", "%3D", "=", "%3d", "=").Replace(text)
}
