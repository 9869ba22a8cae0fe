package disk

// A small version of EKS's Amazon Linux 2023. The image contains kubelet, container runtime and nodeadm without
// packages. Source of the paths: awslabs/amazon-eks-ami.
var amazonLinux = table{
	{"etc/cloud/cloud.cfg.d/90-ec2.cfg", 0o644, "datasource_list: [ Ec2, None ]\n"},
	{"etc/os-release", 0o644, osReleaseAmazon},
	{"etc/pki/tls/certs/ca-bundle.crt", 0, "-> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
	{"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", 0o444, exampleRoot},
	{"var/lib/rpm/packages", 0o644, rpmPlatform},
	{"var/lib/amazon/", 0o755, ""},

	{"usr/bin/nodeadm", 0o755, "nodeadm\n"},
	{"usr/bin/kubelet", 0o755, "kubelet {{.Kubelet}}" + eksBuild + "\n"},
	{"usr/bin/containerd", 0o755, "containerd 2.1.4\n"},
	{"usr/bin/aws", 0o755, "aws-cli/2.31.3\n"},
	{"etc/eks/image-credential-provider/config.json", 0o644, `{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig"}` + "\n"},
	{"etc/systemd/system/nodeadm-config.service", 0o644, "[Service]\nType=oneshot\nExecStart=/usr/bin/nodeadm init --skip run\n"},
	{"etc/systemd/system/nodeadm-run.service", 0o644, "[Service]\nType=oneshot\nExecStart=/usr/bin/nodeadm init --skip config\n"},
	{"etc/systemd/system/multi-user.target.wants/nodeadm-config.service", 0, "-> /etc/systemd/system/nodeadm-config.service"},
	{"etc/systemd/system/multi-user.target.wants/nodeadm-run.service", 0, "-> /etc/systemd/system/nodeadm-run.service"},
	{"etc/systemd/system/kubelet.service", 0o644, "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\nExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS\nRestart=on-failure\n"},
	{"etc/systemd/network/80-ec2.network", 0o644, "[Match]\nDriver=ena\n[Network]\nDHCP=yes\n"},
	{"etc/containerd/config.toml", 0o644, "version = 3\n"},
	{"etc/sysctl.d/99-kubernetes-cri.conf", 0o644, "net.ipv4.ip_forward = 1\n"},
	{"var/lib/kubelet/pods/", 0o750, ""},
	{"var/lib/kubelet/plugins_registry/", 0o750, ""},
	{"var/lib/containerd/io.containerd.metadata.v1.bolt/", 0o711, ""},
	{"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/", 0o755, ""},
	{"var/lib/containerd/io.containerd.content.v1.content/ingest/", 0o755, ""},
	{"var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/", 0o700, ""},
	{"var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/", 0o755, ""},
	{"var/lib/containerd/io.containerd.grpc.v1.cri/containers/", 0o755, ""},
	{"var/lib/containerd/io.containerd.runtime.v2.task/k8s.io/", 0o711, ""},
	{"var/lib/cni/results/", 0o700, ""},
}

// ubuntu is the part of platforms with images by Canonical.
var ubuntu = table{
	{"etc/os-release", 0o644, osRelease},
	{"etc/ssl/certs/ca-certificates.crt", 0o644, exampleRoot},
	{"boot/efi/EFI/ubuntu/grub.cfg", 0o644, "search.fs_label cloudimg-rootfs root\n"},
	{"var/lib/dpkg/status", 0o644, dpkgPlatform},
	{"var/lib/dpkg/lock", 0o640, ""},
	{"var/lib/dpkg/info/", 0o755, ""},
}

// exampleRoot is the authority of all registries in the world. Its key is lost.
const exampleRoot = `-----BEGIN CERTIFICATE-----
MIIBNzCB3qADAgECAgEBMAoGCCqGSM49BAMCMBoxGDAWBgNVBAMMD0V4YW1wbGUg
Um9vdCBDQTAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGjEYMBYG
A1UEAwwPRXhhbXBsZSBSb290IENBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
PIS6xpbaPUKH83UIehswQklPDlqG9fsOgbKD2e1+oDmkc6/fjQX76H19dMXqY5L6
zT3qhEDgG/+sINjA8EAoVaMTMBEwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQD
AgNIADBFAiAM+qpIeZ/fI6U4cuaDYeLQfcggQygFmMsbd99/BAFD5QIhAIHwW90t
0j70rTEXuV2SDGxhSVNVz+JWL/hDjaSvvw/v
-----END CERTIFICATE-----
`

// eksBuild is the suffix of EKS kubelet versions.
const eksBuild = "-eks-113cf36"

// joinEKS adds a serving certificate of the cluster to nodeadm's files.
var joinEKS = table{
	{"var/lib/kubelet/pki/kubelet-server-{{.Hostname}}.pem", 0o600, `{{$name := print "system:node:" .Hostname}}{{cert $name}}{{key $name}}`},
	{"var/lib/kubelet/pki/kubelet-server-current.pem", 0, "-> kubelet-server-{{.Hostname}}.pem"},
}

const osReleaseAmazon = `NAME="Amazon Linux"
VERSION="2023"
ID="amzn"
ID_LIKE="fedora"
VERSION_ID="2023"
PLATFORM_ID="platform:al2023"
PRETTY_NAME="Amazon Linux 2023.9.20251117"
`

// rpmPlatform lists the packages as text. The real rpm database is binary, but only the content matters here.
const rpmPlatform = `Package: cloud-init
Version: 22.2.2-1.amzn2023.1.14

Package: containerd
Version: 2.1.4-1.amzn2023.0.2

Package: curl
Version: 8.11.1-4.amzn2023.0.3

Package: kernel
Version: 6.1.156-177.286.amzn2023

Package: openssh-server
Version: 8.7p1-8.amzn2023.0.16

Package: openssl
Version: 3.2.2-1.amzn2023.0.2

Package: systemd
Version: 252.23-6.amzn2023
`
