package apt

import (
	"strconv"

	"github.com/kamino-dev/kamino/internal/agent/dpkgdb"
)

// LockSeconds is how long apt and dpkg wait for another process, such as apt-daily.
const LockSeconds = 300

// Programs of the host, and files that a run reads.
const (
	Get   = "/usr/bin/apt-get"
	Cache = "/usr/bin/apt-cache"
	Dpkg  = "/usr/bin/dpkg"

	Lists    = "var/lib/apt/lists"
	Archives = "var/cache/apt/archives"
	// Status is dpkg's list of packages, and Updates the journal of changes to it. Numbered files in Updates are left by a
	// killed dpkg, and every apt-get then fails.
	Status  = dpkgdb.Status
	Updates = "var/lib/dpkg/updates"
	// Lock is held by every apt and dpkg that changes packages, with fcntl.
	Lock = "var/lib/dpkg/lock-frontend"
	// RebootRequired exists if a package wants a reboot, and RebootPackages names the packages.
	RebootRequired = "run/reboot-required"
	RebootPackages = "run/reboot-required.pkgs"
)

// Environment of every step. needrestart would restart the kubelet and the runtime, so needrestart only lists.
func Environment() []string {
	return []string{
		"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive",
		"NEEDRESTART_MODE=l", "NEEDRESTART_SUSPEND=1", "APT_LISTCHANGES_FRONTEND=none", "UCF_FORCE_CONFFOLD=1",
	}
}

// securitySuite selects every suite whose name ends with -security: bookworm-security, jammy-security.
// Source: apt_preferences(5), regular expressions.
const securitySuite = "/-security$/"

// options of every apt-get. Colors and progress bars would hide the lines.
func options(verb ...string) []string {
	return append([]string{
		"-q", "-y", "-o", "Dpkg::Use-Pty=0", "-o", "APT::Color=0",
		"-o", "DPkg::Lock::Timeout=" + strconv.Itoa(LockSeconds),
	}, verb...)
}

// UpdateArgs reads the repositories. Error-Mode=any turns a failed repository into exit code 100 (apt 2.1 or later; the
// output is read, too).
func UpdateArgs() []string { return options("-o", "APT::Update::Error-Mode=any", "update") }

// TargetsArgs lists the configured indexes, one a line: URI|SUITE|KEY|FILE.
func TargetsArgs() []string {
	return []string{"indextargets", "--no-release-info", "--format", "$(REPO_URI)|$(RELEASE)|$(METAKEY)|$(FILENAME)"}
}

// UpgradeArgs simulates the upgrade of all packages. --with-new-pkgs allows the package of a new kernel ABI; upgrade removes
// nothing. securityOnly prefers security suites, because a newer version elsewhere would hide their versions.
func UpgradeArgs(securityOnly bool) []string {
	return simulated(securityOnly, "upgrade", "--with-new-pkgs")
}

// TransactionArgs simulates the installation of exactly these versions, each as NAME=VERSION, with their dependencies.
func TransactionArgs(securityOnly bool, versions []string) []string {
	return simulated(securityOnly, append([]string{"install", "--only-upgrade"}, versions...)...)
}

func simulated(securityOnly bool, verb ...string) []string {
	args := []string{"-s"}
	if securityOnly {
		args = append(args, "-t", securitySuite)
	}
	return options(append(args, verb...)...)
}

// confOptions keep a changed configuration file without a question. Without them the package stays unpacked, and every
// later installation fails.
func confOptions() []string {
	return []string{"-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"}
}

// InstallArgs installs exactly these versions, each as NAME=VERSION. --no-remove is the last guard: the simulation was
// checked already.
func InstallArgs(versions []string) []string {
	return append(options(append(confOptions(), "--no-remove", "--only-upgrade", "install")...), versions...)
}

// ShowArgs prints the sizes of versions, each as NAME=VERSION.
func ShowArgs(versions []string) []string {
	return append([]string{"show", "--no-all-versions"}, versions...)
}

// RepairArgs are dpkg's arguments that finish an interrupted run.
func RepairArgs() []string {
	return []string{"--force-confdef", "--force-confold", "--configure", "-a"}
}

// AuditArgs are dpkg's arguments that list broken packages. dpkg exits 0 in every case.
func AuditArgs() []string { return []string{"--audit"} }

// AutoremoveArgs simulates the removal of unneeded packages. apt protects the running kernel and the two newest.
// Source: apt, apt-pkg/algorithms.cc, GetProtectedKernelsRegex.
func AutoremoveArgs() []string { return simulated(false, "autoremove") }

// PurgeArgs removes exactly these packages, and PurgeSimulation simulates the removal.
func PurgeArgs(names []string) []string {
	return append(options(append(confOptions(), "purge")...), names...)
}

// PurgeSimulation simulates PurgeArgs.
func PurgeSimulation(names []string) []string {
	return simulated(false, append([]string{"purge"}, names...)...)
}
