package scan

import "bytes"

// settingFile matches files of settings: by their extension, or without one.
var settingFile = expression(`(?i)\.(?:ya?ml|json5?|toml|ini|cfg|cnf|conf|config|properties|env|tfvars)(?:[.~_-][\w.-]*)?$|/[^/.]+$|/\.[^/.]+$`)

// between matches what is between the name of a secret and its value in YAML, JSON, TOML and ini: signs, the beginning of a
// block, a tag, an anchor, a comment, and the name "value", also in a section of the secret's name. The next line counts if it
// is indented or a list.
const between = `(?:[ \t:=,\[{+-]|[|>][1-9]?|!!\w+|\]\r?\n[ \t]*value\b|&\w+[ \t]|[ \t]#[^\n]{0,80}\r?\n[ \t]+|\\?["'\x60]{3}\r?\n?|\\?["'\x60]|\\?\r?\n(?:[ \t]+|-)|\bvalue\b)+`

// structureForms are secrets whose name and value are apart, or in another order. In a program such a text is no setting.
func structureForms() []signature {
	const value = `([^\s"'\x60<>\\,\]}=:;-][^\s"'\x60<>\\,\]}]{5,199})(\\?["'\x60]?\s{0,4}[:=])?`
	return []signature{
		{
			kind: Password, what: "password or secret by its name", anchors: nameAnchors, back: 48, reach: 420, group: 1, named: true, path: settingFile,
			match: expression(`(?i)(?:^|[^A-Za-z0-9])[\w.-]{0,40}` + secretNames + `s?` + between + value),
			keep:  isSetting,
		},
		{
			kind: Password, what: "password or secret by its name", anchors: nameAnchors, back: 300, reach: 64, group: 1, named: true, path: settingFile,
			match: expression(`(?i)\bvalue["']?\s{0,4}[:=]\s{0,4}["']?([^\s"'\x60<>\\,\]}]{6,200})["']?\s{0,4}[,\n]\s{0,40}["']?(?:name|key)["']?\s{0,4}[:=]\s{0,4}["']?[\w.-]{0,40}` + secretNames + `\b`),
			keep:  func(_, secret []byte) bool { return secretive(string(secret)) },
		},
		{
			kind: Password, what: "password or secret by its name", anchors: nameAnchors, back: 48, reach: 260, group: 1, named: true, path: settingFile,
			match: expression(`(?im)^[ \t]*[\w.-]{0,40}` + secretNames + `[ \t]+([^\s"'\x60<>\\,:=]{6,200})[ \t]*$`),
			keep:  func(_, secret []byte) bool { return secretive(string(secret)) },
		},
	}
}

// isSetting reports whether a match has the structure of a setting: the value is no name of another, and signs or a new line
// separate it from its name.
func isSetting(whole, secret []byte) bool {
	at := bytes.LastIndex(whole, secret)
	name, after := whole[1:at], whole[at+len(secret):]
	hasSigns := bytes.ContainsAny(name, ":=[|>\n") || bytes.Contains(name, []byte(`",`)) || bytes.Contains(name, []byte(`',`))
	isName := bytes.ContainsAny(after, ":=") || bytes.HasSuffix(secret, []byte(":")) || bytes.ContainsRune(name, '\n') && isAssignment().Match(secret)
	refers := bytes.HasPrefix(secret, []byte("*")) || bytes.Contains(whole, []byte("://")) || bytes.HasPrefix(whole, resourceOfSecret)
	return hasSigns && !isName && !refers && !tokenOfRequest().Match(whole[:at]) && secretive(string(secret))
}

// isAssignment matches the next setting, after a name without a value.
var isAssignment = expression(`^[\w.-]+[:=].`)
