package scan

import (
	"bytes"
	"path"
	"regexp"
	"strings"
	"sync"
)

// place is a kind of file whose name shows that its content is secret, in any format.
type place struct {
	what string
	// words has words of which each path contains one, ignoring case. The words exclude most files before the
	// expression.
	words []string
	// path matches the path of the machine, and line a line of the file.
	path, line func() *regexp.Regexp
	kind       Kind
}

// places are few, because a name is weak evidence.
var places = [...]place{
	{"password's hash", []string{"shadow"}, expression(`/etc/g?shadow-?$`), expression(`(?m)^[^:\s]+:[^:!*\s][^:]{7,}:`), Password},
	{"password or its hash", []string{"htpasswd"}, expression(`/[\w.-]*htpasswd[\w.-]*$`), expression(`(?m)^[^:#\s]+:[^:\s]{8,}`), Password},
	{"password", []string{"pgpass"}, expression(`/\.?pgpass(?:\.conf)?$`), expression(`(?m)^[^#:\s][^:\n]*:[^:\n]*:[^:\n]*:[^:\n]*:[^\n]+`), Password},
	{"token", []string{"vault-token"}, expression(`/\.?vault-token$`), expression(`[A-Za-z0-9.-]{16,}`), Token},
	{"password", []string{"-secrets"}, expression(`/etc/ppp/(?:chap|pap)-secrets$`), expression(`(?m)^[^#\s]+\s+\S+\s+[^\s*]\S*`), Password},
	{"password", []string{"cred"}, expression(`/(?:\.smb|\.?cifs)\.?-?(?:credentials|cred|creds)[\w.-]*$|/[\w.-]*credentials$`), expression(`(?m)^\s*password\s*=\s*\S+`), Password},
	{"password that a node's name is bound to", []string{"/node/password"}, expression(`/etc/rancher/node/password$`), expression(`\S{8,}`), Password},
	{"IPsec secret", []string{"psk.txt"}, expression(`/racoon/psk\.txt$`), expression(`(?m)^[^#\s]+[ \t]+\S+`), Password},
	{"private key (WireGuard)", []string{"wireguard", "wg"}, expression(`/(?:etc/wireguard/|[\w.-]*(?:wireguard|wg\d)[\w.-]*/?)[\w.-]*(?:priv|key|psk)[\w.-]*$`), expression(`\A[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=\s*\z`), PrivateKey},
	{"key of an encrypted disk, named here", []string{"crypttab"}, expression(`/etc/crypttab$`), expression(`(?m)^[^#\s]\S*\s+\S+\s+/(?:[^d\s]|d[^e\s]|de[^v\s]|dev[^/\s])\S*`), PrivateKey},
	{"key of an encrypted disk", []string{"luks", "crypt", "keyfile"}, expression(`/(?:[\w.-]*(?:luks|crypt)[\w.-]*(?:key|keyfile)[\w.-]*|(?:crypto_)?keyfile(?:\.bin|\.key)?|etc/(?:luks|cryptsetup-keys\.d)/[^/]+)$`), expression(`(?s)\A.{16,}`), PrivateKey},
}

// placeWords finds the words of all places in one pass. The second result maps each word to its place.
var placeWords = sync.OnceValues(func() (*filter, []int) {
	var words []string
	var of []int
	for i := range places {
		for _, word := range places[i].words {
			words, of = append(words, word), append(of, i)
		}
	}
	return newFilter(words), of
})

// placed finds secrets by the name of their file, in the first window of the file. Programs and documents are named after the
// keys that they describe.
func placed(name string, w *window, found func(secretHit)) {
	if !takesNames(name) && !publicKey().MatchString(name) {
		return
	}
	words, of := placeWords()
	var tried [len(places)]bool
	words.find([]byte(name), 0, len(name), func(word uint16, _ int) {
		p := &places[of[word]]
		if tried[of[word]] {
			return
		}
		tried[of[word]] = true
		if !p.path().MatchString(name) {
			return
		}
		if at := p.line().FindIndex(w.data); at != nil && !bytes.Contains(w.data[at[0]:at[1]], []byte("$ANSIBLE_VAULT")) {
			found(secretHit{kind: p.kind, what: p.what, offset: w.offset + int64(at[0])})
		}
	})
}

// Extensions of program texts and documents. Such files mention passwords and tokens frequently, but contain no node's
// secrets. Secrets recognizable without a name are searched in them too.
const (
	programEnds  = "go rs c h cc cpp hpp java rb pm pl php el vim lua ipynb proto asn asn1 lock sum map"
	webEnds      = "js mjs cjs jsx ts tsx css scss svg htm html"
	documentEnds = "md rst adoc tex csv po mo pot pem crt cer"
)

var sources = func() map[string]bool {
	ends := map[string]bool{}
	for _, list := range []string{programEnds, webEnds, documentEnds} {
		for end := range strings.FieldsSeq(list) {
			ends["."+end] = true
		}
	}
	return ends
}()

// takesNames reports whether a file is searched for secrets that are recognizable only by their names. Pages of the manual
// end in the number of their section, and rotated logs elsewhere in the number of their age.
func takesNames(name string) bool {
	manual := isSection().MatchString(path.Ext(name)) && strings.HasPrefix(path.Base(path.Dir(name)), "man")
	return !manual && !sources[path.Ext(name)]
}

var isSection = expression(`^\.[1-8]$`)
