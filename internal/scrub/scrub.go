// Package scrub removes secrets from texts and objects that leave a cluster or an account. It knows secrets by the words of their names and by
// their forms.
package scrub

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Removed replaces a secret.
const Removed = "REMOVED"

// secretWords are the words that make a name the name of a secret, wherever they stand in it: AWS_SECRET_ACCESS_KEY, apiKey, pgpassword2.
const secretWords = `(?:token|pass(?:w(?:or)?d|phrase|code)|[_-]pass\b|pwd|secret|credential|kubeconfig|cookie|signature|\bsig\b|\bsas\b|` +
	`auth(?:orization)?\b|(?:custom|user)[_-]?data|protected[_-]?settings|connection[_-]?string|` +
	`(?:api|access|account|storage|shared|private|encryption|signing|master|session|[a-z]*scription|client|service|ssh|license)[_-]?keys?|key[_-]?data)`

// secretName is the name of a field or variable whose value is a secret, or could hold secrets, such as customData.
var secretName = regexp.MustCompile(`(?i)^(?:binary|string)data$|` + secretWords)

// secretFlag is a flag whose value is the next word.
var secretFlag = regexp.MustCompile(`(?i)^--?[\w.-]*` + secretWords + `[\w.-]*$`)

// names of other objects, which stand below names such as secretKeyRef and imagePullSecrets and are no secrets.
var references = []string{"name", "namespace", "kind", "apiVersion", "key"}

// secretForms are forms of secrets in a text, with what replaces them.
var secretForms = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), Removed},
	{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{4,}(\.[\w-]*)?`), Removed},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), Removed},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), Removed}, // a bootstrap token of kubeadm
	{regexp.MustCompile(`\b(?:gh[pousr]_|github_pat_|glpat-|dckr_[po]at_|xox[abprs]-|npm_|AIza|hvs\.|sk_live_|K10)[\w:.-]{16,}`), Removed},
	{regexp.MustCompile(`(?i)\b(bearer|basic) [\w+/=.~-]{8,}`), "$1 " + Removed},
	{regexp.MustCompile(`(?i)(\B--?[\w.-]*` + secretWords + `[\w.-]*)[ \t]+("[^"]*"|'[^']*'|[^\s"'-][^\s"']{3,})`), "$1 " + Removed},
	{regexp.MustCompile(`(?i)([\w.-]*` + secretWords + `[\w.-]*)(\\*["']?\s*[:=]\s*)` +
		`(\\+"(?:[^"\\]|\\[^"])*\\*"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;"'}&\\]{4,})`), "$1$2" + Removed},
	{regexp.MustCompile(`\b((?:[a-z]+\+)?[a-z]{2,10}://)[^/\s"'@]+@`), "$1" + Removed + "@"},
	{regexp.MustCompile(`\b((?:chat\+)?https?://[^\s"'?]+)\?[^\s"']+`), "$1?" + Removed},
	{regexp.MustCompile(`\b(chat\+https?://[^/\s"']+)/[^\s"']+`), "$1/" + Removed}, // the path of an incoming webhook is its password
	{regexp.MustCompile(`\b(https://hooks\.[^/\s"']+)/[^\s"']+`), "$1/" + Removed},
	{regexp.MustCompile(`[A-Za-z0-9+/]{160,}={0,2}`), Removed}, // encoded data of any kind
}

// encoded is a text that may be a key, in base64.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/]{36,}={0,2}`)

// Text removes what has the form of a secret.
func Text(text string) string {
	for _, f := range secretForms {
		text = f.form.ReplaceAllString(text, f.by)
	}
	return encoded.ReplaceAllStringFunc(text, func(value string) string {
		if random(value) {
			return Removed
		}
		return value
	})
}

// random reports whether small and large letters and digits alternate in a text as in a key. In paths and names they come in runs, and a
// digest has letters of one size.
func random(text string) bool {
	class := func(c rune) int {
		switch {
		case unicode.IsUpper(c):
			return 1
		case unicode.IsLower(c):
			return 2
		case unicode.IsDigit(c):
			return 3
		}
		return 4
	}
	changes, last, seen := 0, 0, [5]bool{}
	for _, c := range text {
		now := class(c)
		if seen[now] = true; now != last {
			changes++
		}
		last = now
	}
	return seen[1] && seen[2] && changes*5 >= len(text)*2
}

// Object removes the secrets of an object, and what only makes the object longer.
func Object(object map[string]any) map[string]any {
	clean, _ := Value("", object).(map[string]any)
	if meta, is := clean["metadata"].(map[string]any); is {
		delete(meta, "managedFields")
		if annotations, is := meta["annotations"].(map[string]any); is {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	return clean
}

// Value is a value without secrets, at a name. Below the name of a secret only references to other objects stay.
func Value(name string, v any) any {
	secret := secretName.MatchString(name[strings.LastIndex(name, "/")+1:])
	switch v := v.(type) {
	case map[string]any:
		return object(name, v, secret)
	case []any:
		return list(name, v)
	case string:
		if secret && v != "" {
			return Removed
		}
		return Text(v)
	}
	return v
}

func object(name string, v map[string]any, secret bool) map[string]any {
	out := map[string]any{}
	for key, inner := range v {
		text, isText := inner.(string)
		switch {
		case isText && text != "" && (secret && !slices.Contains(references, key) || name == "env" && key == "value"):
			out[key] = Removed
		case secret && !isText:
			out[key] = Value(name, inner)
		default:
			out[key] = Value(key, inner)
		}
	}
	return out
}

// list has the value of a flag after its name.
func list(name string, v []any) []any {
	out := make([]any, len(v))
	for i, inner := range v {
		if out[i] = Value(name, inner); i == 0 {
			continue
		}
		flag, _ := v[i-1].(string)
		if text, is := inner.(string); is && secretFlag.MatchString(flag) && !strings.HasPrefix(text, "-") {
			out[i] = Removed
		}
	}
	return out
}
