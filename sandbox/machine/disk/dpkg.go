package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// packagesFile is the file with the installed packages, and the file that a package manager locks.
func packagesFile(root string) (list, lock string) {
	if platformOn(root) == OnEKS {
		return "var/lib/rpm/packages", "var/lib/rpm/.rpm.lock"
	}
	return "var/lib/dpkg/status", "var/lib/dpkg/lock-frontend"
}

func packagesPath(root string) string {
	list, _ := packagesFile(root)
	return filepath.Join(root, list)
}

// LockPackages takes the lock of a package manager.
func LockPackages(root string) (unlock func(), err error) {
	_, lock := packagesFile(root)
	file, err := os.OpenFile(filepath.Join(root, lock), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return nil, errors.Join(fmt.Errorf("another program changes packages: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// Packages reads the names and versions of the installed packages.
func Packages(root string) (map[string]string, error) {
	text, err := os.ReadFile(packagesPath(root))
	if err != nil {
		return nil, err
	}
	packages := map[string]string{}
	name := ""
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Package":
			name = value
		case "Version":
			packages[name] = value
		}
	}
	return packages, nil
}

// SetPackages installs packages, or changes the versions of installed packages.
func SetPackages(root string, versions map[string]string) error {
	packages, err := Packages(root)
	if err != nil {
		return err
	}
	for name, version := range versions {
		packages[name] = version
	}
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	slices.Sort(names)
	path := packagesPath(root)
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "Package: %s\nStatus: install ok installed\nMaintainer: Sandbox <sandbox@example.com>\nArchitecture: amd64\nVersion: %s\nDescription: %s\n\n", name, packages[name], name)
		if err := addFileLists(filepath.Join(filepath.Dir(path), "info"), name); err != nil {
			return err
		}
	}
	if err := os.WriteFile(path+"-new", []byte(out.String()), 0o644); err != nil {
		return err
	}
	list, _ := packagesFile(root)
	return errors.Join(os.Rename(path+"-new", path), Fsync(root, list))
}

// addFileLists creates the list of files that each package of dpkg has, and on a disk with apt (package sandbox/apt) the checksums that
// dpkg --audit demands.
func addFileLists(info, name string) error {
	lists := map[string]string{name + ".list": "/.\n"}
	if !exists(info) {
		return nil
	}
	if exists(filepath.Join(info, "../updates")) {
		lists[name+".md5sums"] = ""
	}
	for path, text := range lists {
		path = filepath.Join(info, path)
		if exists(path) {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var lastNumber = regexp.MustCompile(`(\d+)(\D*)$`)

// NextVersion is a later version: the last number plus one.
func NextVersion(version string) string {
	at := lastNumber.FindStringSubmatchIndex(version)
	if at == nil {
		return version + "+1"
	}
	number, err := strconv.Atoi(version[at[2]:at[3]])
	if err != nil {
		return version + "+1"
	}
	return version[:at[2]] + strconv.Itoa(number+1) + version[at[4]:]
}

var kernelABI = regexp.MustCompile(`^(.*[-.])(\d+)([-.][a-z].*)$`)

// NextKernel is the next kernel release: "5.15.0-1071-azure" gives "5.15.0-1072-azure", and
// "6.1.156-177.286.amzn2023.x86_64" gives the release with 287.
func NextKernel(release string) string {
	at := kernelABI.FindStringSubmatch(release)
	if at == nil {
		return NextVersion(release)
	}
	number, err := strconv.Atoi(at[2])
	if err != nil {
		return NextVersion(release)
	}
	return at[1] + strconv.Itoa(number+1) + at[3]
}
