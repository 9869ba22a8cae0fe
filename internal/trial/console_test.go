package trial

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kamino-dev/kamino/internal/cloud"
)

// TestConsole: the sentence has the last different lines that may explain the failure, in their order.
func TestConsole(t *testing.T) {
	for name, c := range map[string]struct{ console, want string }{
		"empty": {"", ""},
		"blank": {"\r\n \r\n\x1b[0m\r\n", ""},
		"no error": {"[    0.000000] kernel: Linux version 5.15\r\nUbuntu 22.04 LTS n1 ttyS0\r\nn1 login: ",
			". The serial console has no error, and ends with: n1 login:"},
		"a flag": {
			"[    1.500000] kernel: Linux version 5.15\r\n[   12.250000] kubelet: command failed: failed to parse kubelet flag: unknown flag: " +
				"--max-podz\r\n[\x1b[0;1;31mFAILED\x1b[0m] Failed to start kubelet.service.\r\nn1 login: ",
			". Serial console: kubelet: command failed: failed to parse kubelet flag: unknown flag: --max-podz; [FAILED] Failed to start kubelet.service.",
		},
		"repeated": {
			"[ 1.0] a: dial tcp 10.0.0.1:443: connection refused, attempt 1\n[ 2.0] b: no space left on device\n[ 3.0] a: dial tcp 10.0.0.1:443: " +
				"connection refused, attempt 2\n",
			". Serial console: b: no space left on device; a: dial tcp 10.0.0.1:443: connection refused, attempt 2",
		},
		"the last lines": {
			"a: error\nb: error\nc: error\nd: error\ne: error\nf: error\ng: error\n", ". Serial console: c: error; d: error; e: error; f: error; g: error",
		},
		"an error in capitals": {
			"[    3.000000] ERROR: cannot mount /var\n",
			". Serial console: ERROR: cannot mount /var",
		},
		"carriage returns within a line": {
			"[    4.000000] a: failed\r\n\rn1 login: ",
			". Serial console: a: failed",
		},
		"an empty line between": {
			"a: error\n\n\nb: error\n",
			". Serial console: a: error; b: error",
		},
		"part of a word": {"terror: nothing\nn1 login:", ". The serial console has no error, and ends with: n1 login:"},
	} {
		if got := Console(c.console, nil, false); got != c.want {
			t.Errorf("%s:\n%q\nwant:\n%q", name, got, c.want)
		}
	}
}

// TestConsoleOfAReadyNode: a console without an error explains nothing, and an unread console has the reason.
func TestConsoleOfAReadyNode(t *testing.T) {
	if got := Console("n1 login:", nil, true); got != "" {
		t.Errorf("%q", got)
	}
	if got := Console("a: error", nil, true); got != ". Serial console: a: error" {
		t.Errorf("%q", got)
	}
	for err, want := range map[error]string{
		&cloud.Error{Kind: cloud.Unsupported, Op: "read the serial console of"}: "",
		errors.New("no\nanswer of https://h/log?sig=abc"):                       ". Serial console unread: no answer of https://h/log?sig=(hidden)",
	} {
		if got := Console("", err, false); got != want {
			t.Errorf("%v: %q", err, got)
		}
	}
}

// TestConsoleHidesSecrets in lines that explain a failure.
func TestConsoleHidesSecrets(t *testing.T) {
	for line, want := range map[string]string{
		"error: token=abc123 refused":                                 "error: token=(hidden) refused",
		`error: "password": "two words", retry`:                       `error: "password": (hidden), retry`,
		"error: DB_PASSWORD=hunter2":                                  "error: DB_PASSWORD=(hidden)",
		"error: client_secret: hunter2":                               "error: client_secret: (hidden)",
		"error: Authorization: Bearer abcdefgh.ijkl":                  "error: Authorization: (hidden) (hidden)",
		"error: header bearer abcdefghijkl":                           "error: header bearer (hidden)",
		"error: GET https://u:p@example.com/x":                        "error: GET https://(hidden)example.com/x",
		"error: join with abcdef.0123456789abcdef":                    "error: join with (hidden)",
		"error: key AKIAIOSFODNN7EXAMPLE":                             "error: key (hidden)",
		"error: eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln is expired": "error: (hidden) is expired",
		"error: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY":             "error: (hidden)",
		"error: -----BEGIN EC PRIVATE KEY-----MHcCAQEE":               "error: (hidden)",
		"error: https://h/blob?se=1&sig=a%2Fb":                        "error: https://h/blob?se=1&sig=(hidden)",
		"error: 0123456789abcdef0123456789abcdef01234567":             "error: (hidden)",
		// These texts explain a failure, and stay.
		"error: dial unix /run/containerd/containerd.sock: connect: no such file or directory":            "error: dial unix /run/containerd/containerd.sock: connect: no such file or directory",
		"error: x509: certificate signed by unknown authority":                                            "error: x509: certificate signed by unknown authority",
		"error: node 3f2504e0-4f89-11d3-9a0c-0305e82c3301 not found":                                      "error: node 3f2504e0-4f89-11d3-9a0c-0305e82c3301 not found",
		"error: /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/metadata.db: invalid database": "error: /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/metadata.db: invalid database",
		`error: Post "https://10.7.7.7:443/api/v1/nodes": dial tcp: i/o timeout`:                          `error: Post "https://10.7.7.7:443/api/v1/nodes": dial tcp: i/o timeout`,
		"error: failed to load TOML: /etc/containerd/config.toml: (1, 12): was expecting token keygroup or TOML": "error: failed to load TOML: " +
			"/etc/containerd/config.toml: (1, 12): was expecting token keygroup or TOML",
	} {
		if got := Console(line, nil, false); got != ". Serial console: "+want {
			t.Errorf("%s:\n%s", line, got)
		}
	}
}

// FuzzConsole: a sentence from a console is short, has one line, and has no control character, for any text.
func FuzzConsole(f *testing.F) {
	f.Add("error \x1b]0;title\x07 \x1b[2J\u202e reversed\u200b\r\nerror \xff\xfe\n\x00")
	f.Add(strings.Repeat("error é", 20_000))
	f.Add("error\x9b31m\u2028next")
	f.Fuzz(func(t *testing.T, console string) {
		got := Console(console, nil, true)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", got)
		}
		if len(got) > maxLines*(maxLine+2)+len(". The serial console has no error, and ends with: ") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	})
}

// TestWordsOfFailures: each word is found as a whole word, in any case.
func TestWordsOfFailures(t *testing.T) {
	for _, line := range []string{
		"kubelet: failed to run Kubelet: validate service connection",
		"kubelet: FATAL: no configuration",
		"systemd[1]: containerd.service: Failed with result 'exit-code'.",
		"systemd[1]: Failed to mount /var/lib/etcd.",
		"[FAILED] Failed to start kubelet.service.",
		"kernel: EXT4-fs error (device sda1): ext4_lookup: inode #2",
		"kernel: Kernel panic - not syncing: VFS",
		"kernel: Oops: 0000 [#1] SMP",
		"kernel: Out of memory: Killed process 812 (kubelet)",
		"kernel: app[812]: segfault at 0 ip 0 sp 0",
		"cloud-init: Can't open /dev/sr0",
		"cloud-init: could not read the user data",
		"containerd: cannot open meta.db: invalid database",
		"containerd: metadata is corrupted",
		"kubelet: unable to load the certificate",
		"kubelet: connection refused",
		"kubelet: permission denied",
		"kubelet: nodes is forbidden",
		"kubelet: Unauthorized",
		"kubelet: dial tcp: i/o timeout",
		"kubelet: the request timed out",
		"kubelet: open /etc/kubernetes/kubelet.conf: no such file or directory",
		"kubelet: plugin not found",
		"kubelet: write /var/lib/kubelet: no space left on device",
		"kubelet: unknown flag: --max-podz",
		"kubelet: the certificate is expired",
		"kubelet: x509: certificate signed by another authority",
		"kubelet: the CNI configuration is missing",
	} {
		if got := Console("before\r\n"+line+"\r\nn1 login:", nil, true); got != ". Serial console: "+line {
			t.Errorf("%s: %q", line, got)
		}
	}
	for _, line := range []string{
		"kernel: Command line: BOOT_IMAGE=/boot/vmlinuz root=LABEL=root ro",
		"kernel: terrors: 0 failsafe: on",
		"systemd[1]: Started kubelet.service - kubelet.",
		"kernel: unkilled processes: 0",
		"cloud-init: finished at Fri, 27 Nov 2026",
	} {
		if got := Console(line, nil, true); got != "" {
			t.Errorf("%s: %q", line, got)
		}
	}
}
