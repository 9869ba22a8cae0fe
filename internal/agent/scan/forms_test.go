package scan

import (
	"fmt"
	"strings"
	"testing"
)

// secretForms are the ways in which settings have a secret, by the kind of file. %s is the value.
var secretForms = map[string]string{
	"a.yaml plain":              "db:\n  password: %s\n",
	"b.yaml quoted key":         "\"password\": '%s'\n",
	"c.yaml flow":               "db: {user: a, password: %s}\n",
	"d.yaml block":              "password: |\n  %s\n",
	"e.yaml folded":             "password: >-\n    %s\nuser: a\n",
	"f.yaml block with comment": "password: |- # of the site\n  %s\n",
	"g.yaml next line":          "password:\n  %s\n",
	"h.yaml name and value":     "env:\n- name: DB_PASSWORD\n  value: %s\n",
	"i.yaml value and name":     "env:\n- value: \"%s\"\n  name: DB_PASSWORD\n",
	"j.yaml flow pair":          "env: [{name: DB_PASSWORD, value: %s}]\n",
	"k.yaml key and value":      "- key: api-token\n  value: %s\n",
	"l.yaml tag":                "password: !!str %s\n",
	"m.yaml anchor":             "password: &p %s\n",
	"n.yaml list":               "passwords:\n- %s\n",
	"o.yaml list in flow":       "tokens: [%s]\n",
	"p.yaml nested":             "password:\n  value: %s\n",
	"q.yaml camel":              "dbPassword: %s\n",
	"r.yaml explicit key":       "? password\n: %s\n",
	"s.yaml long flow":          "{user: a,\n password:\n   %s}\n",
	"t.json compact":            "{\"password\":\"%s\"}",
	"u.json spaced":             "{\n  \"password\" :\n    \"%s\"\n}\n",
	"v.json name and value":     "{\"name\":\"DB_PASSWORD\",\"value\":\"%s\"}",
	"w.json pair":               "[\"password\",\"%s\"]",
	"x.json map in OVSDB":       "[\"map\",[[\"user\",\"a\"],[\"password\",\"%s\"]]]",
	"y.json list":               "{\"tokens\":[\"%s\"]}",
	"z.json nested":             "{\"password\":{\"value\":\"%s\"}}",
	"a.json in a text":          "{\"env\":\"{\\\"password\\\":\\\"%s\\\"}\"}",
	"a.toml plain":              "password = \"%s\"\n",
	"b.toml literal":            "password = '%s'\n",
	"c.toml lines":              "password = \"\"\"\n%s\"\"\"\n",
	"d.toml literal lines":      "password = '''%s'''\n",
	"e.toml dotted":             "db.password = \"%s\"\n",
	"f.toml inline":             "db = {user = \"a\", password = \"%s\"}\n",
	"g.toml list":               "tokens = [\n  \"%s\",\n]\n",
	"h.toml quoted key":         "\"db password\" = \"%s\"\n",
	"n.yaml list of one":        "- password: %s\n  user: a\n",
	"o.yaml flow list":          "password: [\"%s\"]\n",
	"p.yaml comment between":    "password:\n  # of the site\n  %s\n",
	"q.yaml carriage returns":   "user: a\r\npassword: %s\r\n",
	"r.yaml indentation sign":   "password: |2-\n    %s\n",
	"s.yaml quoted in lines":    "password:\n  \"%s\"\n",
	"u.yaml with a comment":     "password: \"%s\" # of the site\n",
	"v.yaml in a text":          "data:\n  app.properties: |\n    db.password=%s\n",
	"w.yaml merged":             "db: {<<: *a, \"password\": \"%s\", }\n",
	"b.json list of one":        "{\"password\": [\n  \"%s\"\n]}",
	"c.json key and value":      "[{\"Key\": \"password\", \"Value\": \"%s\"}]",
	"d.json value and name":     "{\"value\": \"%s\", \"name\": \"DB_PASSWORD\"}",
	"e.json a later line":       "{\"password\"\n:\n\"%s\"}",
	"f.json lines":              "{\"user\":\"a\"}\n{\"password\":\"%s\"}\n",
	"g.json list of variables":  "{\"env\":[\"USER=a\",\"DB_PASSWORD=%s\"]}",
	"i.toml table":              "[password]\nvalue = \"%s\"\n",
	"j.toml array of tables":    "[[users]]\nname = \"a\"\npassword = \"%s\"\n",
	"k.toml without blanks":     "password=\"%s\"#x\n",
	"l.toml literal list":       "tokens = ['%s']\n",
	"m.toml dotted and quoted":  "db.\"password\" = '%s'\n",
	"l.ini section":             "[password]\nvalue = %s\n",
	"m.ini tabs":                "[db]\npassword\t=\t%s\n",
	"n.ini carriage returns":    "[db]\r\npassword=%s\r\n",
	"o.ini capitals":            "DB_PASSWORD='%s'; export DB_PASSWORD\n",
	"p.ini unit":                "[Service]\nEnvironment=\"DB_PASSWORD=%s\" X=y\n",
	"q.ini many on a line":      "server=a;user=b;password=%s;timeout=3\n",
	"a.keys of chrony":          "10 SHA1 ASCII:%s\n",
	"a.ini equals":              "[db]\npassword=%s\n",
	"b.ini colon":               "[db]\npassword: %s\n",
	"c.ini spaces":              "[db]\npassword   =    %s\n",
	"d.ini space":               "[db]\npassword %s\n",
	"e.ini continued":           "[db]\npassword =\n    %s\n",
	"f.ini export":              "export DB_PASSWORD=\"%s\"\n",
	"g.ini quoted":              "[db]\npassword = '%s'\n",
	"h.ini comment after":       "[db]\npassword = %s ; of the site\n",
	"i.ini dash":                "db-password = %s\n",
	"j.ini spaces in name":      "db password = %s\n",
	"k.ini backslash":           "password = \\\n  %s\n",
}

func TestSecretForms(t *testing.T) {
	for name, form := range secretForms {
		dir := t.TempDir()
		format, _, _ := strings.Cut(name[1:], " ")
		writeFile(t, dir, "etc/acme/x"+format, fmt.Sprintf(form, "x7Kq2vXj5Tr8Zw"))
		report, err := Tree(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if report.Count == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
