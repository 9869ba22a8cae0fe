package sbom

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/contents"
)

// advisory is in the format of OSV. The version of curl in the test is older than the fixed version.
const advisory = `{"schema_version": "1.6.0", "id": "DEBIAN-CVE-2026-1234", "modified": "2026-03-01T00:00:00Z", "affected": [{
"package": {"ecosystem": "Debian:12", "name": "curl"},
"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "7.88.1-10+deb12u9"}]}]}]}`

// TestScanner: osv-scanner reads every package of both formats, and finds the vulnerable package by name, version and
// release of the distribution. `make test-sbom` builds the scanner. The scanner works offline, on a database of one entry.
func TestScanner(t *testing.T) {
	program := os.Getenv("KAMINO_OSV_SCANNER")
	if program == "" {
		t.Skip("KAMINO_OSV_SCANNER names no scanner: run make test-sbom")
	}
	database := t.TempDir()
	advisories(t, filepath.Join(database, "osv-scalibr", "Debian", "all.zip"))
	s := subject()
	s.Contents.Packages = []contents.Package{
		{Kind: contents.Deb, Name: "curl", Version: "7.88.1-10+deb12u8", Arch: "amd64"},
		{Kind: contents.Deb, Name: "libssl3", Version: "3.0.15-1~deb12u1", Arch: "amd64", Source: "openssl", SourceVersion: "3.0.15-1"},
		{Kind: contents.Deb, Name: "libstdc++6", Version: "12.2.0-14", Arch: "amd64", Source: "gcc-12"},
	}
	s.Contents.Images = nil
	want := map[string]string{"curl Debian:12 7.88.1-10+deb12u8": "DEBIAN-CVE-2026-1234", "libssl3 Debian:12 3.0.15-1~deb12u1": "",
		"libstdc++6 Debian:12 12.2.0-14": ""}
	text, err := Write(s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "version.cdx.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, scan(t, program, database, file)); diff != "" {
		t.Error(diff)
	}
}

// advisories writes the database of one distribution.
func advisories(t *testing.T, file string) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("DEBIAN-CVE-2026-1234.json")
	if err == nil {
		_, err = w.Write([]byte(advisory))
	}
	if err := errors.Join(err, z.Close(), os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// scan returns the packages that the scanner has read, each with the IDs of its vulnerabilities.
func scan(t *testing.T, program, database, file string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "scan", "source", "--offline", "--local-db-path", database, "--all-packages", "--format",
		"json", "--lockfile", file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	var found *exec.ExitError
	if err != nil && (!errors.As(err, &found) || found.ExitCode() != 1) { // 1: vulnerabilities are found
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var out struct {
		Results []struct {
			Packages []struct {
				Package         struct{ Name, Version, Ecosystem string }
				Vulnerabilities []struct{ ID string }
			}
		}
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s %s", err, text, stderr.String())
	}
	read := map[string]string{}
	for _, r := range out.Results {
		for _, p := range r.Packages {
			ids := ""
			for _, v := range p.Vulnerabilities {
				ids += v.ID
			}
			read[p.Package.Name+" "+p.Package.Ecosystem+" "+p.Package.Version] = ids
		}
	}
	return read
}
