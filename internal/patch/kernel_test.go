package patch

import "testing"

func TestNewestKernel(t *testing.T) {
	for want, kernels := range map[string][]string{
		"6.1.0-40-amd64":     {"vmlinuz-6.1.0-9-amd64", "vmlinuz-6.1.0-40-amd64", "vmlinuz-6.1.0-37-amd64"},
		"5.15.0-1101-azure":  {"vmlinuz-5.15.0-1101-azure", "vmlinuz-5.15.0-1099-azure", "vmlinuz", "vmlinuz.old"},
		"6.1.0-1":            {"vmlinuz-0-rescue-0123456789abcdef", "vmlinuz-6.1.0-1"},
		"":                   {"config-6.1.0-1", "vmlinuz-0-rescue-0123456789abcdef"},
		"6.12.0-0.rc1.fc41":  {"vmlinuz-6.12.0-0.rc1.fc41", "vmlinuz-6.11.9-300.fc41"},
		"6.1.0-10+deb12u1":   {"vmlinuz-6.1.0-10", "vmlinuz-6.1.0-10+deb12u1", "vmlinuz-6.1.0-10~bpo"},
		"6.8.0-1020-generic": {"vmlinuz-6.8.0-1020-generic"},
	} {
		if got := NewestKernel(kernels); got != want {
			t.Errorf("the newest of %v is %q, want %q", kernels, got, want)
		}
	}
}

// The order of deb-version(7), and of dpkg's own tests.
func TestCompareVersions(t *testing.T) {
	ordered := []string{"1.0~~", "1.0~~a", "1.0~", "1.0", "1.0a", "1.0b", "1.0+", "1.0-1", "1.1", "1.2", "1.10", "1.010a", "2"}
	for i, a := range ordered {
		for j, b := range ordered {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := CompareVersions(a, b); got != want {
				t.Errorf("CompareVersions(%q, %q) is %d, want %d", a, b, got, want)
			}
		}
	}
	if CompareVersions("1.001", "1.1") != 0 || CompareVersions("", "") != 0 {
		t.Error("leading zeros are irrelevant")
	}
}

// A release of Amazon Linux 2023 ends with its day.
func TestCompareReleases(t *testing.T) {
	if CompareVersions("2023.10.20260105", "2023.9.20251110") != 1 {
		t.Error("2023.10 is newer than 2023.9")
	}
	if CompareVersions("2023.9.20251110", "2023.9.20251111") != -1 {
		t.Error("the later day is newer")
	}
}
