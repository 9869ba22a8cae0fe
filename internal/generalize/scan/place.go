package scan

import (
	"bytes"
	"regexp"
	"strings"
)

// place is a file of which the name says that what stands in it is secret, whatever it looks like.
type place struct {
	what string
	// path is what the path of the machine must match, and line what a line of the file must.
	path, line *regexp.Regexp
	kind       Kind
}

// places are few: a name is a weak reason.
var places = []place{
	{"password's hash", regexp.MustCompile(`/etc/g?shadow-?$`), regexp.MustCompile(`(?m)^[^:\s]+:[^:!*\s][^:]{7,}:`), Password},
	{"password or its hash", regexp.MustCompile(`/[\w.-]*htpasswd[\w.-]*$`), regexp.MustCompile(`(?m)^[^:#\s]+:[^:\s]{8,}`), Password},
	{"password", regexp.MustCompile(`/\.?pgpass(?:\.conf)?$`), regexp.MustCompile(`(?m)^[^#:\s][^:\n]*:[^:\n]*:[^:\n]*:[^:\n]*:[^\n]+`), Password},
	{"token", regexp.MustCompile(`/\.?vault-token$`), regexp.MustCompile(`[A-Za-z0-9.-]{16,}`), Token},
	{"password", regexp.MustCompile(`/etc/ppp/(?:chap|pap)-secrets$`), regexp.MustCompile(`(?m)^[^#\s]+\s+\S+\s+[^\s*]\S*`), Password},
	{"password", regexp.MustCompile(`/(?:\.smb|\.?cifs)\.?-?(?:credentials|cred|creds)[\w.-]*$|/[\w.-]*credentials$`), regexp.MustCompile(`(?m)^\s*password\s*=\s*\S+`), Password},
	{"IPsec secret", regexp.MustCompile(`/racoon/psk\.txt$`), regexp.MustCompile(`(?m)^[^#\s]+[ \t]+\S+`), Password},
	{"private key (WireGuard)", regexp.MustCompile(`/(?:etc/wireguard/|[\w.-]*(?:wireguard|wg\d)[\w.-]*/?)[\w.-]*(?:priv|key|psk)[\w.-]*$`), regexp.MustCompile(`\A[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\s*\z`), PrivateKey},
	{"key of an encrypted disk, named here", regexp.MustCompile(`/etc/crypttab$`), regexp.MustCompile(`(?m)^[^#\s]\S*\s+\S+\s+/(?:[^d\s]|d[^e\s]|de[^v\s]|dev[^/\s])\S*`), PrivateKey},
	{"key of an encrypted disk", regexp.MustCompile(`/(?:[\w.-]*(?:luks|crypt)[\w.-]*(?:key|keyfile)[\w.-]*|(?:crypto_)?keyfile(?:\.bin|\.key)?|etc/(?:luks|cryptsetup-keys\.d)/[^/]+)$`), regexp.MustCompile(`(?s)\A.{16,}`), PrivateKey},
}

// placed finds secrets by the name of their file. Only the begin of a file is looked at, up to a window.
func placed(name string, w *window, found func(hit)) {
	for i := range places {
		p := &places[i]
		if !p.path.MatchString(name) {
			continue
		}
		if at := p.line.FindIndex(w.data); at != nil && !bytes.Contains(w.data[at[0]:at[1]], []byte("$ANSIBLE_VAULT")) {
			found(hit{kind: p.kind, what: p.what, offset: w.offset + int64(at[0])})
		}
	}
}

// sources are texts of programs and pages: they name passwords and tokens on each line, and hold none that is a
// node's. What can be told by itself is looked for in them, too.
var sources = regexp.MustCompile(`\.(?:go|rs|c|h|cc|cpp|hpp|java|js|mjs|cjs|jsx|ts|tsx|css|scss|map|svg|html?|md|rst|adoc|tex|po|mo|pot|pem|crt|cer|csv|lock|sum|d\.ts|1|2|3|4|5|6|7|8|ipynb|el|vim|lua|rb|pm|pl|php|proto|asn1?)$`)

// takesNames says whether secrets are looked for in a file that are told by their names alone.
func takesNames(name string) bool {
	base := name[strings.LastIndexByte(name, '/')+1:]
	return !sources.MatchString(base)
}
