// Package support writes a bundle for a report of a bug: what Kamino and the cluster say about each other, without
// secrets. The package decides what a bundle holds, and what is removed from it. It reads no Secret and no ConfigMap.
package support

import (
	"regexp"
	"strings"
)

// Removed replaces a secret.
const Removed = "REMOVED"

// secretName is the name of a field or variable whose value is a secret, or could hold secrets, such as customData.
var secretName = regexp.MustCompile(`(?i)^(custom-?data|user-?data|(binary|string)data|.*(token|passw(or)?d|secret|credential|private-?key|protected-?settings))$`)

// forms of secrets in a text, with what replaces them.
var forms = []struct {
	form *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`), Removed},
	{regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]{4,}(\.[\w-]*)?`), Removed},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), Removed},
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), Removed}, // a bootstrap token of kubeadm
	{regexp.MustCompile(`(?i)\b(bearer|basic) [\w+/=.~-]{8,}`), "$1 " + Removed},
	{regexp.MustCompile(`(?i)\b([\w-]*(?:custom-?data|user-?data|token|passw(?:or)?d|secret|private-?key|credential))(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|[^\s,;"'}&]{4,})`), "$1$2" + Removed},
	{regexp.MustCompile(`\b((?:chat\+)?https?://)[^/\s"'@]+@`), "$1" + Removed + "@"},
	{regexp.MustCompile(`\b((?:chat\+)?https?://[^\s"'?]+)\?[^\s"']+`), "$1?" + Removed},
	{regexp.MustCompile(`\b(chat\+https?://[^/\s"']+)/[^\s"']+`), "$1/" + Removed}, // the path of an incoming webhook is its password
	{regexp.MustCompile(`[A-Za-z0-9+/]{160,}={0,2}`), Removed},                     // encoded data of any kind
}

// Text removes what has the form of a secret.
func Text(text string) string {
	for _, f := range forms {
		text = f.form.ReplaceAllString(text, f.by)
	}
	return text
}

// Object removes the secrets of an object, and what only makes the object longer.
func Object(object map[string]any) map[string]any {
	clean, _ := value("", object).(map[string]any)
	if meta, is := clean["metadata"].(map[string]any); is {
		delete(meta, "managedFields")
		if annotations, is := meta["annotations"].(map[string]any); is {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	return clean
}

// value is a value without secrets, at a name.
func value(name string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, inner := range v {
			last := key[strings.LastIndex(key, "/")+1:]
			text, isText := inner.(string)
			switch {
			case isText && text != "" && secretName.MatchString(last):
				out[key] = Removed
			case isText && name == "env" && key == "value":
				out[key] = Removed
			default:
				out[key] = value(key, inner)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = value(name, inner)
		}
		return out
	case string:
		return Text(v)
	}
	return v
}
