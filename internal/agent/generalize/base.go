package generalize

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// made matches files that system programs create on every machine, such as caches and indexes, as expressions of whole paths.
// No package has their checksums. A reviewer can ignore the files, but the search for secrets reads them.
var made = []string{
	// Accounts, names and locale of the machine (passwd, adduser, base-files, tzdata, netbase).
	`/etc/(?:passwd|group|shadow|gshadow|subuid|subgid|shells|adjtime|hosts|hostname|fstab|timezone|localtime|resolv\.conf|environment|locale\.conf|locale\.gen|default/(?:locale|keyboard|useradd|grub|console-setup)|motd|issue|networks|nsswitch\.conf|vconsole\.conf|profile|machine-id|\.pwd\.lock|\.updated|mtab|papersize|mailname)`,
	// Links and lists from maintainer scripts.
	`/etc/(?:ld\.so\.cache|ld\.so\.conf|ca-certificates\.conf(?:\.dpkg-old)?|pam\.d/common-[a-z-]+|apt/(?:sources\.list|sources\.list\.d/[^/]+|trusted\.gpg\.d/[^/]+\.gpg)|kernel/postinst\.d/[^/]+|modules|popularity-contest\.conf|rc\d\.d/[^/]+|cloud/(?:build\.info|cloud\.cfg\.d/90_dpkg\.cfg)|inputrc|bash\.bashrc|ssh/(?:sshd_config|ssh_config|moduli))`,
	`/etc/ssl/certs/(?:ca-certificates\.crt|java/cacerts)`, `/etc/console-setup/cached_.*`, `/etc/systemd/(?:system|user)/.*\.wants/.*`,
	`/usr/lib/(?:locale/(?:locale-archive|C\.utf8/.*)|modules/[^/]+/modules\.[a-z.]+|udev/hwdb\.bin|systemd/catalog/database|gconv/gconv-modules\.cache|[^/]+/gconv/gconv-modules\.cache|[^/]+/(?:gdk-pixbuf-2\.0/.*/loaders\.cache|gio/modules/giomodule\.cache)|ssl/cert\.pem)`,
	`/etc/udev/hwdb\.bin`, `/usr/share/(?:info/dir(?:\.old)?|mime/.*|applications/mimeinfo\.cache|icons/.*/icon-theme\.cache|glib-2\.0/schemas/gschemas\.compiled|perl/.*/perllocal\.pod)`,
	`/usr/share/fonts/.*/?\.uuid|/usr/(?:share|lib)/python3?/.*\.pyc`,
	// Boot files made from packages on each machine (initramfs-tools, grub-install).
	`/boot/(?:initrd\.img-.*|initramfs-.*\.img|grub2?/.*|(?:efi/)?EFI/.*|efi/\.uuid|loader/.*)`, `/efi/(?:EFI|loader)/.*`,
	// Databases and caches of package managers and other programs.
	`/var/lib/(?:dpkg|apt|rpm|dnf|yum|pam|ucf|vim/addons|systemd/(?:catalog/database|deb-systemd-.*|timers|.*-helper-enabled/.*|random-seed)|dbus|python|polkit-1|command-not-found|update-notifier|ubuntu-release-upgrader|man-db|mlocate|logrotate|private|misc|initramfs-tools|ieee-data|xml-core|sgml-base|emacsen-common|os-prober|aspell|dictionaries-common|update-manager|usbutils|shim-signed|grub)(?:/.*)?`,
	`/usr/lib/sysimage/rpm/.*`, `/var/cache/(?:apt|debconf|ldconfig|man|fontconfig|dnf|yum|swcatalog|app-info|apparmor|private|cracklib)(?:/.*)?`,
	`/var/backups/(?:apt\.|dpkg\.|alternatives\.tar).*`, `/var/log/(?:apt|dpkg|alternatives|bootstrap|fontconfig|faillog|lastlog|wtmp|btmp).*`, `/var/lib/shells\.state`,
	// Files from Kamino.
	`/var/lib/kamino/.*`, `/etc/kamino/first-boot\.sh`, `/etc/apt/apt\.conf\.d/99kamino-quiet`,
}

// madeBySystem reports whether a path matches made. The first directory of a path selects the expression, for speed.
var madeBySystem = sync.OnceValue(func() func(string) bool {
	anywhere := regexp.MustCompile(`^.*/__pycache__/[^/]+\.pyc$`)
	byTop := map[string]*regexp.Regexp{}
	for _, top := range []string{"etc", "usr", "boot", "efi", "var"} {
		of := slices.DeleteFunc(slices.Clone(made), func(e string) bool { return !strings.HasPrefix(e, "/"+top+"/") })
		byTop[top] = regexp.MustCompile(`^(?:` + strings.Join(of, "|") + `)$`)
	}
	return func(path string) bool {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		e := byTop[top]
		return e != nil && e.MatchString(path) || strings.HasSuffix(path, ".pyc") && anywhere.MatchString(path)
	}
})
