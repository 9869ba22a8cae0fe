package disk

import "strings"

// Platform is what a disk's image was published for. What differs is the system, the agent that the cloud has on it, where
// cloud-init finds its instance, and names.
type Platform string

// The platforms.
const (
	OnAzure Platform = "Azure"
	OnEC2   Platform = "Ec2"
	// OnEKS is EC2, with Amazon Linux as EKS publishes it.
	OnEKS Platform = "EKS"
)

// imagesOfEC2 begin so, and those of EKS among them.
const (
	imagesOfEC2 = "ec2:"
	imagesOfEKS = "ec2:amazon:eks-"
)

// PlatformOf an image that a publisher has: "ec2:canonical:ubuntu-jammy-22.04-amd64:20241002" is of EC2's,
// "ec2:amazon:eks-al2023-x86_64-standard:20251120" of EKS's, any other of Azure's.
func PlatformOf(image string) Platform {
	switch {
	case strings.HasPrefix(image, imagesOfEKS):
		return OnEKS
	case strings.HasPrefix(image, imagesOfEC2):
		return OnEC2
	}
	return OnAzure
}

// platformOn a disk.
func platformOn(root string) Platform {
	switch {
	case Exists(root, "usr/bin/nodeadm"):
		return OnEKS
	case Exists(root, "etc/cloud/cloud.cfg.d/90-ec2.cfg"):
		return OnEC2
	}
	return OnAzure
}

// on completes facts with the platform of a disk that is there.
func (f Facts) on(root string) Facts {
	f.Platform = platformOn(root)
	return f.Complete()
}

// ways of a platform to call things.
type ways struct{ user, kernel, release, kernelPackage, network, source, seed string }

var called = map[Platform]ways{
	OnAzure: {"azureuser", "azure", "5.15.0-1071-azure", "linux-image-azure", "azure", "DataSourceAzure", "DataSourceAzure [seed=/dev/sr0]"},
	OnEC2:   {"ubuntu", "aws", "5.15.0-1071-aws", "linux-image-aws", "cluster", "DataSourceEc2", "DataSourceEc2Local"},
	OnEKS:   {"ec2-user", "aws", "6.1.156-177.286.amzn2023.x86_64", "kernel", "aws", "DataSourceEc2", "DataSourceEc2Local"},
}

// User that the image's cloud-init makes.
func (p Platform) User() string { return called[p].user }

// Kernel is what is in the names of the platform's own.
func (p Platform) Kernel() string { return called[p].kernel }

// Release of the kernel that the image comes with.
func (p Platform) Release() string { return called[p].release }

// KernelPackage is the one whose update brings a kernel.
func KernelPackage(root string) string { return called[platformOn(root)].kernelPackage }

// Network is what the nodes' network is called in their network plugin's files.
func (p Platform) Network() string { return called[p].network }

// Source is cloud-init's for the instance, and Seed where it has found it.
func (p Platform) Source() string { return called[p].source }

// Seed is said of Source.
func (p Platform) Seed() string { return called[p].seed }
