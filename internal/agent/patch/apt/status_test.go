package apt

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/patch"
)

const status = `Package: openssl
Status: install ok installed
Installed-Size: 2315
Architecture: amd64
Version: 3.0.16-1~deb12u1
Conffiles:
 /etc/ssl/openssl.cnf 1234
Description: Secure Sockets Layer toolkit
 Version: this line is text
 .

Package: kubelet
Status: hold ok installed
Architecture: amd64
Source: kubernetes (1.30)
Version: 1.30.1-1.1

Package: half
Status: install ok half-configured
Architecture: all
Version: 2.0

Package: bad
Status: install reinstreq half-installed
Architecture: all
Version: 1.0

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1.0

Package: virtual
Status: unknown ok not-installed
`

func TestPackages(t *testing.T) {
	got, err := Packages(strings.NewReader(status))
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{Installed: patch.Installed{Name: "openssl", Version: "3.0.16-1~deb12u1", Arch: "amd64"}, KiB: 2315},
		{Installed: patch.Installed{Name: "kubelet", Version: "1.30.1-1.1", Arch: "amd64"}, Hold: true, Source: "kubernetes"},
		{Installed: patch.Installed{Name: "half", Version: "2.0", Arch: "all", State: "half-configured"}},
		{Installed: patch.Installed{Name: "bad", Version: "1.0", Arch: "all", State: "half-installed reinstreq"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if names := Incomplete(got); !slices.Equal(names, []string{"bad", "half"}) {
		t.Errorf("incomplete are %v", names)
	}
	if Level(got) == Level(got[:2]) || Level(got) != Level([]Package{got[3], got[2], got[1], got[0]}) {
		t.Error("the level must depend on the packages, and not on their order")
	}
	// A hold is no other patch level: nothing on the disk differs.
	free := slices.Clone(got)
	free[1].Hold = false
	if Level(free) != Level(got) {
		t.Error("a hold changes the level")
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

func TestAnUnreadableListIsNoEmptyList(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "blank": "\n\n", "two words": "Package: a\nStatus: install ok\n", "no status": "Package: a\nVersion: 1\n",
	} {
		if got, err := Packages(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, err := Packages(broken{}); err == nil || !strings.Contains(err.Error(), "input/output error") {
		t.Errorf("%v", err)
	}
}

func TestChanges(t *testing.T) {
	before := []Package{installed("openssl", "1"), installed("bash", "1"), installed("gone", "1")}
	foreign := installed("bash", "1")
	foreign.Arch = "i386"
	after := []Package{installed("openssl", "2"), installed("bash", "1"), foreign, installed("linux-image-6.1.0-40-amd64", "2")}
	want := []patch.Change{openssl, {Name: "bash", To: "1", Arch: "i386"}, kernel}
	if diff := cmp.Diff(want, Changes(before, after, []patch.Change{openssl, kernel})); diff != "" {
		t.Error(diff)
	}
	if got := Changes(before, before, []patch.Change{openssl}); got != nil {
		t.Errorf("nothing has changed, and %v is reported", got)
	}
}

func TestMissing(t *testing.T) {
	half := installed("openssl", "2")
	half.State = "half-configured"
	foreign := patch.Change{Name: "zlib1g:i386", To: "2"}
	planned := []patch.Change{openssl, bash, kernel, foreign}
	after := []Package{half, installed("bash", "2"), installed("linux-image-6.1.0-40-amd64", "1"), installed("zlib1g", "2")}
	if diff := cmp.Diff([]patch.Change{openssl, kernel}, Missing(planned, after)); diff != "" {
		t.Error(diff)
	}
}

func TestSizes(t *testing.T) {
	got, err := Sizes([]byte("Package: openssl\nVersion: 3.0.17\nInstalled-Size: 2315\nSize: 1441784\nDescription: x\n y\n\nPackage: virtual\nVersion: 1\n\n"))
	want := []Size{{Name: "openssl", Version: "3.0.17", Download: 1441784, Installed: 2315}, {Name: "virtual", Version: "1"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestAuditSummary(t *testing.T) {
	const audit = "The following packages are missing the list control file in the\ndatabase, they need to be reinstalled:\n bar                  foo\n\nThe following packages are missing the md5sums\n"
	for _, c := range []struct {
		incomplete  []string
		audit, want string
	}{
		{nil, "\n", ""},
		{[]string{"a", "b"}, audit, "incomplete packages: a, b"},
		{nil, audit, "dpkg --audit: The following packages are missing the list control file in the database, they need to be reinstalled: bar foo"},
		{nil, strings.Repeat("x", 201), "dpkg --audit: " + strings.Repeat("x", 200) + "…"},
	} {
		if got := AuditSummary(c.incomplete, c.audit); got != c.want {
			t.Errorf("AuditSummary(%v, %q) = %q, want %q", c.incomplete, c.audit, got, c.want)
		}
	}
}
