package quiesce

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const order = "0bde4000-0000-4000-8000-000000000003"

var nonce = strings.Repeat("0123456789abcdef", 4)

// The node has the nonce of one order, and the nonce of an order is never replaced.
func TestNonce(t *testing.T) {
	tr := plant(t, map[string]string{NonceDir + "/older": "x\n", NonceDir + "/deep/older": "x\n", "var/lib/kamino/returning/other": "x"})
	p := filepath.Join(tr.Dir(), NonceDir, order)
	if err := leaveNonce(tr, order, nonce); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(p); err != nil || string(content) != nonce+"\n" {
		t.Errorf("the file holds %q, %v", content, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(p)); len(entries) != 1 {
		t.Errorf("older nonces stay: %v", entries)
	}
	if _, err := os.Stat(filepath.Join(tr.Dir(), "var/lib/kamino/returning/other")); err != nil {
		t.Errorf("another file of Kamino is gone: %v", err)
	}
	var refusal *RefusedError
	if err := leaveNonce(tr, order, strings.Repeat("f", 64)); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "Make a new order") {
		t.Errorf("a second run of the order: %v", err)
	}
	if content, _ := os.ReadFile(p); string(content) != nonce+"\n" {
		t.Errorf("the second run wrote %q", content)
	}
	if err := removeNonce(tr, order); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the nonce stays: %v", err)
	}
}

// A link never leads the nonce to another place.
func TestNonceBehindLink(t *testing.T) {
	for link, to := range map[string]string{"var/lib/kamino": "../../etc", NonceDir: "../../../etc", NonceDir + "/" + order: "../../../../etc/x"} {
		tr := plant(t, map[string]string{"etc/hostname": "x", link: "-> " + to})
		if err := leaveNonce(tr, order, nonce); err == nil {
			t.Errorf("%s: written through a link", link)
		}
		if entries, _ := os.ReadDir(filepath.Join(tr.Dir(), "etc")); len(entries) != 1 {
			t.Errorf("%s: something was made behind the link: %v", link, entries)
		}
	}
}

func TestCheckNonce(t *testing.T) {
	for _, bad := range [][2]string{
		{"", nonce}, {".", nonce}, {"..", nonce}, {"a/b", nonce}, {"-x", nonce}, {strings.Repeat("a", 64), nonce}, {"a b", nonce}, {"a\n", nonce},
		{order, ""}, {order, nonce[1:]}, {order, strings.ToUpper(nonce)}, {order, nonce + "\n"},
	} {
		if err := CheckNonce(bad[0], bad[1]); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	if err := CheckNonce(order, nonce); err != nil {
		t.Error(err)
	}
}
