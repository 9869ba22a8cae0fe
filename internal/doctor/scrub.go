package doctor

import (
	"regexp"
	"strings"
)

// removed replaces a secret.
const removed = "REMOVED"

// secretName is the name of a field or variable whose value is a secret, or could hold secrets, such as customData.
var secretName = regexp.MustCompile(`(?i)^(custom-?data|user-?data|(binary|string)data|` +
	`.*(token|passw(or)?d|secret|credential|private-?key|protected-?settings))$`)

// secretForms are forms of secrets in a text, with what replaces them.
var secretForms = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), removed},
	{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{4,}(\.[\w-]*)?`), removed},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), removed},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), removed}, // a bootstrap token of kubeadm
	{regexp.MustCompile(`(?i)\b(bearer|basic) [\w+/=.~-]{8,}`), "$1 " + removed},
	{regexp.MustCompile(`(?i)\b([\w-]*(?:custom-?data|user-?data|token|passw(?:or)?d|secret|private-?key|credential))(["']?\s*[:=]\s*)` +
		`("[^"]*"|'[^']*'|[^\s,;"'}&]{4,})`), "$1$2" + removed},
	{regexp.MustCompile(`\b((?:chat\+)?https?://)[^/\s"'@]+@`), "$1" + removed + "@"},
	{regexp.MustCompile(`\b((?:chat\+)?https?://[^\s"'?]+)\?[^\s"']+`), "$1?" + removed},
	{regexp.MustCompile(`\b(chat\+https?://[^/\s"']+)/[^\s"']+`), "$1/" + removed}, // the path of an incoming webhook is its password
	{regexp.MustCompile(`[A-Za-z0-9+/]{160,}={0,2}`), removed},                     // encoded data of any kind
}

// withoutSecrets removes what has the form of a secret.
func withoutSecrets(text string) string {
	for _, f := range secretForms {
		text = f.form.ReplaceAllString(text, f.by)
	}
	return text
}

// scrubbed removes the secrets of an object, and what only makes the object longer.
func scrubbed(object map[string]any) map[string]any {
	clean, _ := scrubValue("", object).(map[string]any)
	if meta, is := clean["metadata"].(map[string]any); is {
		delete(meta, "managedFields")
		if annotations, is := meta["annotations"].(map[string]any); is {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	return clean
}

// scrubValue is a value without secrets, at a name.
func scrubValue(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			last := key[strings.LastIndex(key, "/")+1:]
			text, isText := inner.(string)
			switch {
			case isText && text != "" && secretName.MatchString(last):
				out[key] = removed
			case isText && name == "env" && key == "value":
				out[key] = removed
			default:
				out[key] = scrubValue(key, inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = scrubValue(name, inner)
		}
		return out
	case string:
		return withoutSecrets(v)
	}
	return v
}
