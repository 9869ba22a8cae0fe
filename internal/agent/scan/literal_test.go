package scan

import "testing"

// TestNamesOfWords: a host name that is a word is found where a setting has it as the name of a machine, and nowhere else.
func TestNamesOfWords(t *testing.T) {
	for content, found := range map[string]bool{
		"Hostname=web\n":                             true,
		"[agent]\n  hostname = \"WEB\"\n":            true,
		"myhostname = web.corp.example\n":            true,
		"certname = web\r\n":                         true,
		"node_name \"web\"\n":                        true,
		"{\"node-name\": \"web\", \"port\": 1}\n":    true,
		"{\"port\":1,\"hostName\":\"web\"}":          true,
		"teleport:\n  nodename: web # the machine\n": true,
		"$LocalHostName web\n":                       true,
		"sysName web\n":                              true,
		"[global]\nnetbios name = WEB\n":             true,
		"minion_id: web\n":                           true,
		"ipa_hostname = web.corp.example\n":          true,
		"fqdn='web.corp.example'\n":                  true,

		"server_name web;\n":            false,
		"# hostname = web\n":            false,
		"; hostname = web\n":            false,
		"hostname = website\n":          false,
		"hostname = web-7\n":            false,
		"hostname = web server\n":       false,
		"hostname_of = web\n":           false,
		"hostname =\nweb = 1\n":         false,
		"log \"the hostname is web\"\n": false,
		"namespace: web\n":              false,
		"name: web\nkind: Deployment\n": false,
		"upstream: http://web:8080/\n":  false,
	} {
		dir := t.TempDir()
		writeFile(t, dir, "etc/acme/acme.conf", content)
		report := search(t, dir)
		if (report.Count == 1) != found {
			t.Errorf("%q: %+v, want it found: %t", content, report.Findings, found)
		}
	}
	for name, found := range map[string]bool{"etc/mailname": true, "var/lib/acme/node_name": true, "etc/acme/role": false, "usr/share/acme/hostname": false, "var/log/hostname": false} {
		dir := t.TempDir()
		writeFile(t, dir, name, "web\n")
		if report := search(t, dir); (report.Count == 1) != found {
			t.Errorf("/%s: %+v, want it found: %t", name, report.Findings, found)
		}
	}
}

// search searches a tree for the name of a donor that is called web.
func search(t *testing.T, dir string) *Report {
	t.Helper()
	report, err := Tree(t.Context(), dir, Options{Literals: []Literal{{What: "host name", Text: "web.corp.example", IsWord: true}, {What: "host name", Text: "web", IsWord: true}}})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
