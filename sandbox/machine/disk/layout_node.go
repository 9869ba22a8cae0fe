package disk

// nodeSoftware holds the software that the bootstrap installs on every node.
var nodeSoftware = table{
	{"usr/local/bin/kubelet", 0o755, "kubelet {{.Kubelet}}\n"},
	{"usr/local/bin/kubectl", 0o755, "kubectl {{.Kubelet}}\n"},
	{"usr/bin/containerd", 0o755, "containerd 1.7.25\n"},
	{"opt/cni/bin/{{.Platform.Network}}-vnet", 0o755, "{{.Platform.Network}}-vnet v1.4.59\n"},
	{"etc/containerd/config.toml", 0o644, "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n  sandbox_image = \"" + pauseImage + "\"\n"},
	{"etc/cni/net.d/10-{{.Platform.Network}}.conflist", 0o644, `{"cniVersion":"0.3.0","name":"{{.Platform.Network}}","plugins":[{"type":"{{.Platform.Network}}-vnet","mode":"bridge"}]}` + "\n"},
	{"etc/sysctl.d/60-kubernetes.conf", 0o644, "net.ipv4.ip_forward = 1\n"},
	{"etc/systemd/system/multi-user.target.wants/kubelet.service", 0, "-> /etc/systemd/system/kubelet.service"},
	{"var/lib/kubelet/pods/", 0o750, ""},
	{"var/lib/kubelet/plugins/", 0o750, ""},
	{"var/lib/kubelet/plugins_registry/", 0o750, ""},
	{"var/lib/containerd/io.containerd.metadata.v1.bolt/", 0o711, ""},
	{"var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/", 0o755, ""},
	{"var/lib/containerd/io.containerd.content.v1.content/ingest/", 0o755, ""},
	{"var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/", 0o700, ""},
	{"var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/", 0o755, ""},
	{"var/lib/containerd/io.containerd.grpc.v1.cri/containers/", 0o755, ""},
	{"var/lib/containerd/io.containerd.runtime.v2.task/k8s.io/", 0o711, ""},
	{"var/lib/cni/networks/{{.Platform.Network}}/", 0o755, ""},
	{"var/lib/cni/results/", 0o700, ""},
	{"var/lib/cni/cache/", 0o700, ""},
	{"var/log/{{.Platform.Kernel}}/cluster-provision.log", 0o644, "{{rfc3339 .Now}} provisioned {{.Hostname}}\n"},
}

// joinStatic holds the join of an AKS Engine node: the cluster's credential, equal on all nodes. cloud-init has
// written the files before if the customData contains the files.
var joinStatic = table{
	{"etc/kubernetes/manifests/", 0o755, ""},
	{"etc/kubernetes/azure.json", 0o600, `{"cloud":"AzureStackCloud","vmType":"vmss","useManagedIdentityExtension":true,"aadClientId":"msi","aadClientSecret":"msi","userAssignedIdentityID":"{{uuid}}"}` + "\n"},
	{"etc/kubernetes/certs/ca.crt", 0o644, `{{cert "ca"}}`},
	{"etc/kubernetes/certs/client.crt", 0o644, `{{cert "client"}}`},
	{"etc/kubernetes/certs/client.key", 0o600, `{{key "client"}}`},
	{"var/lib/kubelet/kubeconfig", 0o600, `apiVersion: v1
kind: Config
clusters: [{name: localcluster, cluster: {certificate-authority: /etc/kubernetes/certs/ca.crt, server: "https://10.255.255.5:443"}}]
users: [{name: client, user: {client-certificate: /etc/kubernetes/certs/client.crt, client-key: /etc/kubernetes/certs/client.key}}]
contexts: [{name: localclustercontext, context: {cluster: localcluster, user: client}}]
current-context: localclustercontext
`},
	{"var/lib/kubelet/config.yaml", 0o644, kubeletConfig},
	{"etc/default/kubelet", 0o644, "KUBELET_CONFIG=--config=/var/lib/kubelet/config.yaml --kubeconfig=/var/lib/kubelet/kubeconfig --cloud-provider=external --tls-cert-file=/etc/kubernetes/certs/kubeletserver.crt --tls-private-key-file=/etc/kubernetes/certs/kubeletserver.key\nKUBELET_NODE_LABELS={{.Labels}}\n"},
	{"opt/azure/containers/provision.sh", 0o744, "#!/bin/bash\n# Installs and configures a node of this cluster.\n"},
	{"opt/azure/containers/kubelet-serving-cert.sh", 0o744, "#!/bin/bash\n# Makes /etc/kubernetes/certs/kubeletserver.{crt,key} if they are missing.\n"},
	{"etc/systemd/system/kubelet.service", 0o644, "[Service]\nEnvironmentFile=/etc/default/kubelet\nExecStartPre=/opt/azure/containers/kubelet-serving-cert.sh\nExecStart=/usr/local/bin/kubelet --node-labels=\"${KUBELET_NODE_LABELS}\" $KUBELET_CONFIG\nRestart=always\n"},
}

// serveStatic holds the kubelet's serving certificate. The kubelet's unit creates a missing certificate.
var serveStatic = table{
	{"etc/kubernetes/certs/kubeletserver.crt", 0o644, `{{cert .Hostname}}`},
	{"etc/kubernetes/certs/kubeletserver.key", 0o600, `{{key .Hostname}}`},
}

// credentialBootstrap holds the mark of a node that joined with `kubeadm join`: its own credential. A real cluster
// signs the credential.
var credentialBootstrap = table{
	{"etc/kubernetes/pki/ca.crt", 0o644, `{{cert "ca"}}`},
	{"etc/kubernetes/bootstrap-kubelet.conf", 0o600, `apiVersion: v1
kind: Config
users: [{name: tls-bootstrap-token-user, user: {token: {{hex 3}}.{{hex 8}}}}]
`},
	{"etc/kubernetes/kubelet.conf", 0o600, `apiVersion: v1
kind: Config
clusters: [{name: default-cluster, cluster: {certificate-authority: /etc/kubernetes/pki/ca.crt, server: "https://10.255.255.5:6443"}}]
users: [{name: default-auth, user: {client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem, client-key: /var/lib/kubelet/pki/kubelet-client-current.pem}}]
contexts: [{name: default-context, context: {cluster: default-cluster, user: default-auth}}]
current-context: default-context
`},
	{"var/lib/kubelet/pki/kubelet-client-{{.Hostname}}.pem", 0o600, `{{$name := print "system:node:" .Hostname}}{{cert $name}}{{key $name}}`},
	{"var/lib/kubelet/pki/kubelet-client-current.pem", 0, "-> kubelet-client-{{.Hostname}}.pem"},
}

// joinBootstrap holds the other files of `kubeadm join`.
var joinBootstrap = table{
	{"etc/kubernetes/manifests/", 0o755, ""},
	{"var/lib/kubelet/pki/kubelet.crt", 0o644, "{{cert .Hostname}}"},
	{"var/lib/kubelet/pki/kubelet.key", 0o600, "{{key .Hostname}}"},
	{"var/lib/kubelet/config.yaml", 0o644, kubeletConfig},
	{"var/lib/kubelet/kubeadm-flags.env", 0o644, `KUBELET_KUBEADM_ARGS="--cloud-provider=external{{with .Labels}} --node-labels={{.}}{{end}}{{with .Taints}} --register-with-taints={{.}}{{end}}"` + "\n"},
	{"var/lib/kubelet/instance-config.yaml", 0o644, "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/containerd/containerd.sock\n"},
	{"etc/systemd/system/kubelet.service", 0o644, "[Service]\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nExecStart=/usr/local/bin/kubelet --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS\nRestart=always\n"},
}

// kubeletState holds the state files of a running kubelet and runtime.
var kubeletState = table{
	{"var/lib/containerd/io.containerd.grpc.v1.introspection/uuid", 0o666, "{{uuid}}"},
	{"var/lib/kubelet/cpu_manager_state", 0o600, `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`},
	{"var/lib/kubelet/memory_manager_state", 0o600, `{"policyName":"None","machineState":{},"checksum":4236770233}`},
	{"var/lib/kubelet/dra_manager_state", 0o600, `{"version":"v1","entries":[]}`},
	{"var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", 0o600, `{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}`},
	{"var/lib/kubelet/image_manager/pulled/sha256-{{hex 4}}", 0o600, `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1alpha1","imageRef":"` + pauseImage + `"}`},
}

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS: [10.0.0.10]
kubeReserved: {cpu: 100m, memory: 512Mi}
maxPods: 110
rotateCertificates: true
staticPodPath: /etc/kubernetes/manifests
`

const pauseImage = "mcr.microsoft.com/oss/kubernetes/pause:3.9"

// BaseImages are the container images that the bootstrap pulls before the kubelet starts.
var BaseImages = []string{
	pauseImage,
	"mcr.microsoft.com/oss/kubernetes/kube-proxy:" + DefaultKubelet,
	"mcr.microsoft.com/oss/kubernetes/ip-masq-agent:v2.8.0",
}

// nodePackages are installed by the bootstrap.
var nodePackages = map[string]string{
	"conntrack":        "1:1.4.6-2build2",
	"ebtables":         "2.0.11-4build2",
	"moby-containerd":  "1.7.25-ubuntu22.04u1",
	"moby-runc":        "1.2.4-ubuntu22.04u1",
	"socat":            "1.7.4.1-3ubuntu4",
	"nfs-common":       "1:2.6.1-1ubuntu1.2",
	"apache2-utils":    "2.4.52-1ubuntu4.12",
	"jq":               "1.6-2.1ubuntu3",
	"libpam-pwquality": "1.4.4-1build2",
}
