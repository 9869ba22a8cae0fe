package scan

import (
	"bytes"
	"math"
	"strings"
)

// secretNames matches the ends of names that settings use for secrets.
const secretNames = `(?:passw(?:or)?d|passphrase|passwort|pwd|secret|token|api[_-]?key|apikey|(?:access|account|storage|secret|auth|shared|private|encryption|master|signing)[_-]?key|credentials?)`

// nameAnchors has a part of each of these names.
var nameAnchors = []string{"passw", "passphrase", "pwd", "secret", "token", "api_key", "api-key", "apikey", "_key", "-key", "accesskey", "accountkey", "storagekey",
	"secretkey", "authkey", "sharedkey", "privatekey", "encryptionkey", "masterkey", "signingkey", "credential"}

// passwordForms are password hashes, which are recognizable alone, and values recognizable only by their names.
func passwordForms() []signature {
	return []signature{
		{
			kind: Password, what: "password's hash", anchors: []string{"$1$", "$5$", "$6$", "$7$", "$y$", "$gy$", "$2a$", "$2b$", "$2x$", "$2y$", "$apr1$", "$argon2"}, reach: 256, random: true,
			match: expression(`\A\$(?:(?:1|apr1)\$[./A-Za-z0-9]{1,8}\$[./A-Za-z0-9]{22}|5\$(?:rounds=\d+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{43}|6\$(?:rounds=\d+\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{86}|` +
				`(?:y|gy|7)\$[./A-Za-z0-9]+\$[./A-Za-z0-9]{1,86}\$[./A-Za-z0-9]{43}|2[abxy]\$(?:0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}|argon2(?:id|i|d)\$v=\d+\$[a-z0-9=,]+\$[A-Za-z0-9+/]{11,}\$[A-Za-z0-9+/]{22,})`),
			keep: func(whole, _ []byte) bool { return varied(string(whole[bytes.LastIndexByte(whole, '$'):])) },
		},
		{
			kind: Password, what: "password's hash", anchors: []string{"grub.pbkdf2."}, reach: 600, random: true,
			match: expression(`\Agrub\.pbkdf2\.sha\d+\.\d+\.[0-9A-Fa-f]{64,}`),
		},
		{
			kind: Password, what: "password's hash", anchors: []string{"{SHA}", "{SSHA}", "{SHA256}", "{SSHA256}", "{SHA512}", "{SSHA512}"}, reach: 160, named: true,
			match: expression(`\A\{S?SHA(?:256|512)?\}[A-Za-z0-9+/]{26,}={0,2}`),
		},
		{
			kind: Password, what: "password in a URL", anchors: []string{"://"}, back: 20, reach: 300, group: 2, named: true,
			near:  func(text []byte) bool { return bytes.IndexByte(text[:min(len(text), 280)], '@') > 0 },
			match: expression(`[A-Za-z][A-Za-z0-9+.-]{1,19}://([^\s/:@"'<>{}$]{0,64}):([^\s/@"'<>{}$]{3,200})@[A-Za-z0-9\[]`),
			keep:  func(_, secret []byte) bool { return !placeholder(string(secret)) },
		},
		{
			kind: Password, what: "password of a login", anchors: []string{"password"}, back: 200, reach: 200, group: 1, named: true,
			match: expression(`(?:\b(?:machine\s+\S{1,100}|default)\s+)?\blogin\s+\S{1,100}\s+password\s+(\S{3,100})`),
			keep:  isLogin,
		},
		{
			kind: Password, what: "IPsec secret", anchors: []string{" PSK", "XAUTH", ":PSK", " EAP"}, back: 4, reach: 200, named: true,
			match: expression(`:\s*(?:PSK|XAUTH|EAP|NTLM)\s+(?:"[^"\n]{4,120}"|0[sx][A-Za-z0-9+/=]{8,})`),
		},
		{
			kind: Password, what: "password of a wireless network", anchors: []string{"psk=", "psk =", "wpa_passphrase", "sae_password", "wep_key"}, reach: 128, group: 1, named: true,
			match: expression(`\A(?:psk|wpa_passphrase|sae_password|wep_key\d)\s*=\s*("[^"\n]{8,63}"|[^\s"]{8,64})`),
			keep:  func(_, secret []byte) bool { return !placeholder(strings.Trim(string(secret), `"`)) },
		},
		{
			kind: Token, what: "shared key of a name server", anchors: []string{`secret "`}, reach: 128, group: 1, named: true, random: true,
			match: expression(`\Asecret\s+"([A-Za-z0-9+/]{20,}={0,2})"`),
		},
		{
			kind: Token, what: "shared key of a time server", anchors: []string{"HEX:", "ASCII:"}, back: 40, reach: 200, group: 1, named: true,
			match: expression(`(?m)^[ \t]*\d{1,10}[ \t]+(?:MD5|SHA|AES|TIGER|WHIRLPOOL)[\w-]{0,10}[ \t]+((?:HEX:[0-9A-Fa-f]{16,128}|ASCII:\S{6,128}))`),
		},
		{
			kind: Token, what: "storage or service bus key", anchors: []string{"sharedaccesskey"}, reach: 160, random: true, group: 1,
			match: expression(`\A(?i:SharedAccessKey)\s*=\s*([A-Za-z0-9+/]{43}=)`),
		},
		{
			kind: Password, what: "password or secret by its name", anchors: nameAnchors, back: 48, reach: 300, group: 1, named: true, near: assigns,
			match: expression(`(?i)(?:^|[^A-Za-z0-9])[\w.-]{0,40}` + secretNames + `(?:_(?:value|b64|base64))?\\?["'\x60]?(?:\s{0,4}(?:=|:|:=|=>)\s{0,4}|>|[ \t]{1,4}["'])\\?["'\x60]?([^\s"'\x60<>\\]{6,200})`),
			keep: func(whole, secret []byte) bool {
				return secretive(strings.TrimRight(string(secret), ",;")) && !bytes.Contains(whole, []byte("://")) && !bytes.HasPrefix(whole, resourceOfSecret) && !bytes.HasSuffix(secret, []byte(":")) &&
					!tokenOfRequest().Match(whole)
			},
		},
		{
			kind: Password, what: "password on a command's line", anchors: []string{"--pass", "--secret", "--token", "--client-secret", "--api-key", "--access-key"}, reach: 200, group: 1, named: true,
			match: expression(`\A(?i)--[\w-]{0,20}` + secretNames + `[= ]["']?([^\s"'<>]{6,150})`),
			keep:  func(_, secret []byte) bool { return secretive(string(secret)) },
		},
	}
}

// resourceOfSecret precedes the name of a secret in an ARN of AWS Secrets Manager.
var resourceOfSecret = []byte(":secret:")

// tokenOfRequest matches names of tokens that an API uses once, to page through results or to recognize a repeated request.
var tokenOfRequest = expression(`(?i)(?:next|change|continuation|request|action|page|input|output|grant|creation|sync|idempotency)[_-]?token`)

// isLogin reports whether a match is a login of netrc(5), where any word may be a password, or has a made-up password.
// Texts about logins have neither.
func isLogin(whole, secret []byte) bool {
	return !placeholder(string(secret)) && (!bytes.HasPrefix(whole, []byte("login")) || secretive(string(secret)))
}

// assigns quickly checks for an assignment between a name and its value.
func assigns(text []byte) bool {
	return bytes.ContainsAny(text[:min(len(text), 48)], `=:>"'`)
}

var (
	reference = expression(`^(?:[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|[./~][\w./~-]*|[a-z0-9]+(?:[-_./][a-z0-9]+)+|[A-Z][A-Z_]+\d*|\d+(?:\.\d+)*[a-zA-Z]{0,3}|\w+\(.*|0x[0-9a-f]{1,8})$`)
	variable  = expression(`^(?i)[a-z_]*(?:passw(?:or)?d|passphrase|secret|token|credential|key)s?[a-z_]*\d{0,2}$`)
	camelCase = expression(`^(?:[a-z]+|[A-Z][a-z]+)(?:[A-Z][a-z]{2,}){2,}$`)
	code      = expression(`[(){}\[\]]|\$[A-Za-z_{(]|%[sdv(]|&&|\|\||://|\.\.\.|^[@#]`)
)

// secretive reports whether a value looks like a made-up secret. Words, joined words, paths, names in programs and
// placeholders do not.
func secretive(value string) bool {
	if len(value) < 8 || placeholder(value) || code().MatchString(value) || isName(value) {
		return false
	}
	if reference().MatchString(value) {
		// A token of lower-case letters and digits may look like a joined name.
		return len(value) >= 24 && !strings.ContainsAny(value, "/.") && countIn(value).digits >= 6 && entropy(value) >= 3.5
	}
	c := countIn(value)
	switch {
	case c.upper+c.lower == 0 || entropy(value) < 2.7:
		return false
	case c.digits > 0:
		return true
	default:
		return strings.ContainsAny(value, "!#%^&*?+=~@$") || len(value) >= 20 && c.upper > 3 && c.lower > 3 && entropy(value) >= 4
	}
}

// isName reports whether a value is the name of a variable or a field.
func isName(value string) bool {
	return variable().MatchString(value) || camelCase().MatchString(value)
}

// classes counts the characters of a text by class.
type classes struct{ upper, lower, digits int }

func countIn(text string) (c classes) {
	for _, r := range text {
		switch {
		case r >= '0' && r <= '9':
			c.digits++
		case r >= 'a' && r <= 'z':
			c.lower++
		case r >= 'A' && r <= 'Z':
			c.upper++
		}
	}
	return c
}

// entropy is the Shannon entropy in bits per byte.
func entropy(text string) (bits float64) {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}
