package generalize

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kamino-dev/kamino/internal/agent/tree"
)

// bootEntry is an entry of a boot menu that starts Linux.
type bootEntry struct {
	// place is the position in GRUB's menu, for example "1>0" for the first entry of the second, which is a submenu.
	place, title, id string
	// kernels and initramfs are paths on the file system that the boot loader reads.
	kernels, initramfs []string
	// options are the parameters of the kernel.
	options string
}

// brokenEntry returns what an entry of a boot menu lacks; empty if the boot finds everything, or if the tree has no kernel, as
// one without its boot partition.
func brokenEntry(t *tree.Tree, p string, content []byte) string {
	if !slices.ContainsFunc([]string{"boot/vmlinu*", "boot/initr*", "boot/config-*", "usr/lib/modules/*", "lib/modules/*"}, func(pattern string) bool {
		found, err := t.Glob(pattern)
		return err == nil && len(found) > 0
	}) {
		return ""
	}
	entries := entriesOf(p, content)
	for _, e := range entries {
		for _, file := range slices.Concat(e.kernels, e.initramfs) {
			if !hasBootFile(t, file) {
				return fmt.Sprintf("has the entry %q, and its file %s does not exist or is empty", e.title, file)
			}
		}
	}
	if len(entries) == 0 {
		return ""
	}
	first := entries[0]
	if path.Ext(p) == ".cfg" {
		first = defaultEntry(entries, chosenEntry(t, content))
	} else if isEntry(p) {
		entries = nil
		for _, other := range filesOf(t, path.Join(literal(path.Dir(p)), "*.conf")) {
			entries = append(entries, entriesOf(p, other)...)
		}
	}
	if len(first.kernels) > 0 && len(first.initramfs) == 0 && needsInitramfs(&first, entries) {
		return fmt.Sprintf("has the entry %q, which starts %s without an initramfs", first.title, first.kernels[0])
	}
	return ""
}

// rootByContent matches names of the root that only an initramfs can find: the kernel knows no file systems and no mappings
// before their drivers. Source: Linux, init/do_mounts.c.
var rootByContent = regexp.MustCompile(`(?:^|\s)["']?root=["']?(?:UUID=|LABEL=|/dev/(?:mapper|disk)/|/dev/[^/\s]+/|zfs:|ZFS=)`)

// needsInitramfs reports whether an entry has a root that the kernel does not find without an initramfs.
func needsInitramfs(e *bootEntry, all []bootEntry) bool {
	if !strings.Contains(e.options, "root=") && !strings.Contains(e.options, "$") {
		return false // a test of the memory
	}
	return rootByContent.MatchString(e.options) || slices.ContainsFunc(all, func(other bootEntry) bool { return len(other.initramfs) > 0 })
}

var (
	// grubOpens matches the beginning of a block of GRUB's menu, and its title. Source: the manual of GRUB, menu entries.
	grubOpens = regexp.MustCompile(`^(menuentry|submenu|function)\s+(?:'([^']*)'|"([^"]*)"|([^\s{]+))`)
	grubID    = regexp.MustCompile(`(?:--id[= ]|\$menuentry_id_option)\s*["']?([^"'\s{]+)`)
	// grubDefault is the choice of an entry, and grubSaved the same in GRUB's environment.
	grubDefault = regexp.MustCompile(`(?m)^\s*set\s+default=["']?([^"'\n]*)`)
	grubSaved   = regexp.MustCompile(`(?m)^saved_entry=(.*)$`)
	// bootCommand matches the commands of GRUB, the Boot Loader Specification and extlinux that name files.
	bootCommand = regexp.MustCompile(`^(?i)(linux(?:16|efi)?|kernel|initrd(?:16|efi)?|options|append|title|label)\s+(.*)$`)
	appended    = regexp.MustCompile(`(?:^|\s)initrd=(\S+)`)
	grubDevice  = regexp.MustCompile(`^\(\$\{?root\}?\)`)
)

// entriesOf returns the entries of a menu: of GRUB, of the Boot Loader Specification (one for each file), or of extlinux.
// Entries for other systems on other disks are left out.
func entriesOf(p string, content []byte) (found []bootEntry) {
	menu := grubMenu{counts: []int{0}}
	var current *bootEntry
	if isEntry(p) {
		current = &bootEntry{title: strings.TrimSuffix(path.Base(p), ".conf")}
	}
	add := func() {
		if current != nil && len(current.kernels) > 0 && !strings.HasPrefix(current.id, "osprober") {
			found = append(found, *current)
		}
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if next, changes := menu.read(line); changes {
			add()
			current = next
			continue
		}
		m := bootCommand.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if strings.EqualFold(m[1], "label") && !isEntry(p) {
			add()
			current = &bootEntry{title: m[2]}
		} else if current != nil {
			current.read(strings.ToLower(m[1]), m[2])
		}
	}
	add()
	return found
}

// isEntry reports whether a file is an entry of the Boot Loader Specification.
func isEntry(p string) bool { return path.Base(path.Dir(p)) == "entries" }

// grubMenu follows the blocks of GRUB's menu.
type grubMenu struct {
	blocks []string
	// counts are the entries so far, by depth.
	counts []int
	places []string
}

// read reports whether a line begins or ends a block, and returns the entry that it begins.
func (g *grubMenu) read(line string) (entry *bootEntry, changes bool) {
	if m := grubOpens.FindStringSubmatch(line); m != nil && strings.HasSuffix(line, "{") {
		g.blocks = append(g.blocks, m[1])
		if m[1] == "function" {
			return nil, true
		}
		last := len(g.counts) - 1
		place := strings.Join(append(slices.Clone(g.places), fmt.Sprint(g.counts[last])), ">")
		g.counts[last]++
		if m[1] == "submenu" {
			g.places, g.counts = append(g.places, fmt.Sprint(g.counts[last]-1)), append(g.counts, 0)
			return nil, true
		}
		entry = &bootEntry{place: place, title: m[2] + m[3] + m[4]}
		if id := grubID.FindStringSubmatch(line); id != nil {
			entry.id = id[1]
		}
		return entry, true
	}
	if line != "}" || len(g.blocks) == 0 {
		return nil, false
	}
	last := len(g.blocks) - 1
	if g.blocks[last] == "submenu" {
		g.places, g.counts = g.places[:len(g.places)-1], g.counts[:len(g.counts)-1]
	}
	g.blocks = g.blocks[:last]
	return nil, true
}

// read adds a command to the entry. A name with a variable of GRUB is not known.
func (e *bootEntry) read(command, rest string) {
	words := strings.Fields(rest)
	if len(words) == 0 {
		return
	}
	switch {
	case command == "title":
		e.title = rest
	case command == "options" || command == "append":
		e.options += " " + rest
		for _, m := range appended.FindAllStringSubmatch(rest, -1) {
			e.initramfs = append(e.initramfs, strings.Split(m[1], ",")...)
		}
	case strings.HasPrefix(command, "initrd"):
		for _, word := range words {
			e.initramfs = append(e.initramfs, strings.Split(word, ",")...)
		}
	default:
		e.kernels = append(e.kernels, words[0])
		e.options += " " + strings.Join(words[1:], " ")
	}
}

// chosenEntry returns the default of GRUB's menu: a place, a title or an ID.
func chosenEntry(t *tree.Tree, content []byte) string {
	all := grubDefault.FindAllStringSubmatch(string(content), -1)
	if len(all) == 0 {
		return ""
	}
	chosen := strings.TrimSpace(all[len(all)-1][1])
	if strings.Trim(chosen, "${}") != "saved_entry" {
		return chosen
	}
	for _, environment := range filesOf(t, "boot/grub/grubenv", "boot/grub2/grubenv") {
		if m := grubSaved.FindStringSubmatch(string(environment)); m != nil {
			return m[1]
		}
	}
	return ""
}

// defaultEntry returns the chosen entry, or the first without such an entry, as GRUB does.
func defaultEntry(entries []bootEntry, chosen string) bootEntry {
	last := chosen[strings.LastIndex(chosen, ">")+1:]
	for _, e := range entries {
		if chosen == e.place || last != "" && (last == e.title || last == e.id) {
			return e
		}
	}
	return entries[0]
}

// hasBootFile reports whether a file of a boot menu exists, or cannot be known.
func hasBootFile(t *tree.Tree, file string) bool {
	file = grubDevice.ReplaceAllString(strings.Trim(file, `"'`), "")
	return file == "" || strings.ContainsAny(file, "$(") || bootFile(t, file) != ""
}

// bootFile returns the path of a file of a boot menu; empty if there is none. The boot loader reads a file system that is mounted at
// the root or for booting, and can see a subvolume or dataset by its own name.
func bootFile(t *tree.Tree, file string) string {
	file = grubDevice.ReplaceAllString(strings.Trim(file, `"'`), "")
	names := []string{file}
	for _, mark := range []string{"/boot/", "@/"} {
		if i := strings.Index(file, mark); i >= 0 {
			names = append(names, file[i:], file[i+len(mark)-1:])
		}
	}
	if first, rest, more := strings.Cut(strings.TrimPrefix(file, "/"), "/"); more && strings.HasPrefix(first, "@") {
		names = append(names, rest)
	}
	for _, name := range names {
		for _, dir := range []string{"", "boot", "boot/efi", "efi", "boot/extlinux", "boot/syslinux"} {
			p := tree.Rel(path.Join("/", dir, name))
			if real, info, err := t.Resolve(p); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
				return real
			}
		}
	}
	return ""
}
