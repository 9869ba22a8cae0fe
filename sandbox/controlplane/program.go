package controlplane

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // Credential plugins, as in the released kubectl.
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// Programs are the names under which the binary is a program of Kubernetes: the programs that envtest expects in
// KUBEBUILDER_ASSETS.
func Programs() []string { return []string{"etcd", "kube-apiserver", "kubectl"} }

// Exec becomes the program args[0] with its arguments, and does not return. For an unknown name, Exec returns at
// once.
func Exec(args []string) {
	switch args[0] {
	case "etcd":
		etcdmain.Main(args)
		os.Exit(0)
	case "kube-apiserver":
		os.Args = args
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kubectl":
		os.Args = args
		execKubectl()
	}
}

func execKubectl() {
	// Verbosity is wanted before the flags are parsed: building the command reads plugins and .kuberc.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	os.Exit(0)
}
