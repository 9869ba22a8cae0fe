package offline

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kamino-dev/kamino/internal/agent/generalize"
)

func part(number int, kind Kind, uuid string) Partition {
	return Partition{Number: number, Content: Content{Kind: kind, FileSystem: uuid}}
}

func typed(p Partition, kind string) Partition {
	p.Type = kind
	return p
}

func usedAt(p Partition, dir string) Partition {
	p.MountedAt = dir
	return p
}

func TestChooseRoot(t *testing.T) {
	for name, c := range map[string]struct {
		parts []Partition
		uuid  string
		want  int
		says  string
	}{
		"the only one":                  {[]Partition{part(14, "", ""), part(15, vfat, "AB-CD"), part(1, ext4, "a")}, "", 1, ""},
		"without a table":               {[]Partition{part(0, xfs, "a")}, "", 0, ""},
		"by its UUID":                   {[]Partition{part(1, ext4, "a"), part(2, xfs, "B")}, "b", 2, ""},
		"by its type":                   {[]Partition{part(1, ext4, "a"), typed(part(2, xfs, "b"), rootTypes[0])}, "", 2, ""},
		"beside an extended boot":       {[]Partition{part(1, ext4, "a"), typed(part(16, ext4, "b"), typeExtendedBoot)}, "", 1, ""},
		"beside one last used at /boot": {[]Partition{usedAt(part(1, ext4, "a"), "/"), usedAt(part(2, ext4, "b"), "/boot")}, "", 1, ""},
		"two of XFS": {[]Partition{part(1, xfs, "a"), part(2, xfs, "b")}, "", 0,
			"several partitions can be the root: partition 1 (xfs a), partition 2 (xfs b). Pass --root-uuid"},
		"two root types": {[]Partition{typed(part(1, xfs, "a"), rootTypes[0]), typed(part(2, xfs, "b"), rootTypes[1])}, "", 0,
			"several partitions"},
		"only used elsewhere": {[]Partition{usedAt(part(1, ext4, "a"), "/x"), usedAt(part(2, ext4, "b"), "/y")}, "", 0,
			"no partition holds"},
		"none": {[]Partition{part(1, vfat, "a"), part(2, swap, "b")}, "", 0,
			"no partition holds an ext4 or XFS file system; found: partition 1 (vfat a), partition 2 (swap b). Check that the volume"},
		"an empty table": {nil, "", 0, "an empty partition table"},
		"another UUID": {[]Partition{part(1, ext4, "a")}, "b", 0,
			"no file system of the device has the UUID b; found: partition 1 (ext4 a). Check that the volume"},
		"the UUID twice": {[]Partition{part(1, ext4, "a"), part(2, ext4, "a")}, "a", 0,
			"2 file systems of the device have the UUID a"},
	} {
		got, err := chooseRoot(c.parts, c.uuid)
		var refused *generalize.Refused
		if c.says == "" && (err != nil || got.Number != c.want) ||
			c.says != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got partition %d, %v; want %d, %q", name, got.Number, err, c.want, c.says)
		}
	}
}

func TestRefuseForeign(t *testing.T) {
	root := part(1, ext4, "a")
	elsewhere := root
	elsewhere.ForeignJournal = true
	for says, c := range map[string]struct {
		parts []Partition
		whole Content
	}{
		"":                                       {[]Partition{root, part(2, vfat, ""), part(3, swap, ""), part(4, "", "")}, Content{Kind: vfat}},
		"partition 2 holds a physical volume":    {[]Partition{root, part(2, lvm, "")}, Content{}},
		"partition 1 holds a btrfs file system":  {[]Partition{part(1, btrfs, "")}, Content{}},
		"the device holds an encrypted volume":   {[]Partition{part(0, luks, "")}, Content{}},
		"the device holds a member of a soft":    {[]Partition{root}, Content{Kind: md}},
		"the journal of partition 1 is on anoth": {[]Partition{elsewhere}, Content{}},
	} {
		err := refuseForeign(c.parts, c.whole)
		if says == "" && err != nil ||
			says != "" && (err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "Capture the node in place")) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestPlanMounts(t *testing.T) {
	root, boot, esp, swapped := part(1, ext4, "aaaa"), part(2, xfs, "bbbb"), part(15, vfat, "AB12-CD34"), part(3, swap, "cccc")
	boot.Label, boot.UUID, boot.Name = "BOOT", "dddd", "the boot"
	all := []Partition{root, boot, esp, swapped}
	for name, c := range map[string]struct {
		fstab string
		parts []Partition
		want  []string
		says  string
	}{
		"outer ones first": {"# comment\nUUID=ab12-cd34 /boot/efi vfat umask=0077 0 1\nUUID=aaaa / ext4 defaults 0 1\nLABEL=BOOT /boot/ xfs defaults\nUUID=cccc none swap sw", all,
			[]string{"2 /boot", "15 /boot/efi"}, ""},
		"by PARTUUID":               {"PARTUUID=DDDD /boot xfs x", []Partition{root, boot}, []string{"2 /boot"}, ""},
		"by PARTLABEL, with blanks": {`PARTLABEL="the\040boot" /a\040b xfs x`, []Partition{root, boot}, []string{"2 /a b"}, ""},
		"by a link of udev":         {"/dev/disk/by-uuid/bbbb /boot xfs x", []Partition{root, boot}, []string{"2 /boot"}, ""},
		"of another disk":           {"UUID=ffff /data ext4 x\n/dev/sdb1 /more ext4 x\nLABEL= /less ext4 x", []Partition{root, esp}, nil, ""},
		"no fstab":                  {"", []Partition{root, esp, swapped}, nil, ""},
		"a file system that none names": {"UUID=aaaa / ext4 x", all, nil,
			"partition 2 holds a file system (xfs) that /etc/fstab of the copy does not mount"},
		"by a name of the machine": {"/dev/sda2 /boot xfs x", all, nil, "does not mount by its UUID or label"},
		"at two places": {"UUID=bbbb /boot xfs x\nLABEL=BOOT /srv xfs x", []Partition{root, boot}, nil,
			"mounts partition 2 or /srv twice"},
		"two at one place": {"UUID=bbbb /boot xfs x\nUUID=AB12-CD34 /boot/../boot vfat x", all, nil,
			"mounts partition 15 or /boot twice"},
		"the root elsewhere":      {"UUID=aaaa /second ext4 x", []Partition{root}, nil, ""},
		"something over the root": {"UUID=bbbb / ext4 x", []Partition{root, boot}, nil, "partition 2 holds"},
	} {
		plans, err := planMounts(c.fstab, c.parts, root)
		var got []string
		for _, p := range plans {
			got = append(got, strings.TrimPrefix(p.name(), "partition ")+" "+p.Dir)
		}
		if diff := cmp.Diff(c.want, got); diff != "" && c.says == "" {
			t.Errorf("%s (-want +got):\n%s%v", name, diff, err)
		}
		var discarded *DiscardError
		if c.says != "" && (!errors.As(err, &discarded) || discarded.Reason != Unsupported || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

func TestExpectedCheck(t *testing.T) {
	nonce := strings.Repeat("0a", 32)
	for _, c := range []struct {
		e  Expected
		ok bool
	}{
		{Expected{}, true}, {Expected{NonceName: "0f0e-1", Nonce: nonce}, true}, {Expected{NonceName: "0f0e-1"}, false}, {Expected{Nonce: nonce},
			false},
		{Expected{NonceName: "../etc", Nonce: nonce}, false}, {Expected{NonceName: "a/b", Nonce: nonce}, false}, {Expected{NonceName: "a",
			Nonce: nonce[1:]}, false},
		{Expected{NonceName: "a", Nonce: strings.ToUpper(nonce)}, false},
	} {
		if err := c.e.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.e, err)
		}
	}
}
