package patch

import (
	"strings"
	"testing"
)

func TestManagerOf(t *testing.T) {
	for name, test := range map[string]struct {
		osRelease string
		image     bool
		manager   Manager
		refused   string
	}{
		"debian": {
			osRelease: "ID=debian\nVERSION_ID=\"12\"\n",
			manager:   APT,
		},
		"ubuntu": {
			osRelease: "NAME=\"Ubuntu\"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID=\"22.04\"\n",
			manager:   APT,
		},
		"descendant": {
			osRelease: "ID=pop\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22.04\"\n",
			manager:   APT,
		},
		"amazon 2023": {
			osRelease: "ID=\"amzn\"\nID_LIKE=\"fedora\"\nVERSION_ID=\"2023\"\n",
			manager:   DNF,
		},
		"fedora": {
			osRelease: "ID=fedora\nVERSION_ID=41\n",
			manager:   DNF,
		},
		"rocky": {
			osRelease: "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n",
			manager:   DNF,
		},
		"amazon 2": {
			osRelease: "ID=\"amzn\"\nID_LIKE=\"centos rhel fedora\"\nVERSION_ID=\"2\"\n",
			refused:   `Kamino cannot patch "amzn 2": yum is not tested`,
		},
		"azure linux": {
			osRelease: "ID=azurelinux\nVERSION_ID=\"3.0\"\n",
			refused:   `Kamino cannot patch "azurelinux 3.0": tdnf is not tested`,
		},
		"mariner": {
			osRelease: "ID=mariner\nVERSION_ID=\"2.0\"\n",
			refused:   `"mariner 2.0": tdnf is not tested`,
		},
		"sles": {
			osRelease: "ID=\"sles\"\nID_LIKE=\"suse\"\nVERSION_ID=\"15.6\"\n",
			refused:   `"sles 15.6": zypper is not tested`,
		},
		"tumbleweed": {
			osRelease: "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n",
			refused:   `"opensuse-tumbleweed": zypper is not tested`,
		},
		"bottlerocket": {
			osRelease: "ID=bottlerocket\nVERSION_ID=1.20.0\n",
			refused:   `"bottlerocket 1.20.0": the system is an image without packages`,
		},
		"fedora coreos": {
			osRelease: "ID=fedora\nVARIANT_ID=coreos\nVERSION_ID=41\n",
			image:     true,
			refused:   "the system is an image without packages",
		},
		"unknown": {
			osRelease: "ID=gentoo\n",
			refused:   `"gentoo": the distribution is not known`,
		},
		"nothing": {
			osRelease: "",
			refused:   `"": the distribution is not known`,
		},
	} {
		manager, failure := ManagerOf(SystemOf(test.osRelease), test.image)
		if manager != test.manager || (failure == nil) != (test.refused == "") {
			t.Errorf("%s: manager %q, failure %v", name, manager, failure)
			continue
		}
		if failure != nil && (failure.Reason != Unsupported || !strings.Contains(failure.Message, test.refused)) {
			t.Errorf("%s: %+v, want %q", name, failure, test.refused)
		}
	}
}
