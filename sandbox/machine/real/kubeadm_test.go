//go:build machines

package real

import (
	"fmt"
	"strings"
)

// joinRecipe is the user data of one machine like Cluster API's bootstrap provider: the join configuration in
// memory, and one command. Each machine gets its own token.
func (l *lab) joinRecipe() string {
	indented := "    " + strings.ReplaceAll(strings.TrimSpace(string(l.api.ca)), "\n", "\n    ")
	return fmt.Sprintf(`#cloud-config
write_files:
- path: /run/kubeadm/kubeadm-join-config.yaml
  permissions: "0640"
  content: |
    server: https://%s:%s
    token: %s
- path: /run/kubeadm/ca.crt
  permissions: "0644"
  content: |
%s
runcmd:
- "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml && mkdir -p /run/cluster-api && echo success > /run/cluster-api/bootstrap-success.complete"
`, l.address, l.api.port, l.api.joinToken(), indented)
}

// kubeadm replaces "kubeadm join": its preflight checks, its files, and the start of the kubelet. Each run adds a
// line.
const kubeadm = `#!/bin/sh
set -eu
[ "$1 $2" = "join --config" ] || exit 3
echo "$(hostname)" >>` + provisionedLog + `
failed=
for file in /etc/kubernetes/kubelet.conf /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/pki/ca.crt; do
	[ ! -e "$file" ] || { echo "[ERROR FileAvailable]: $file already exists"; failed=yes; }
done
[ -z "$failed" ] || exit 1
umask 077
mkdir -p /etc/kubernetes/pki /etc/kubernetes/manifests /var/lib/kubelet/pki
cp /run/kubeadm/ca.crt /etc/kubernetes/pki/ca.crt
cp "$3" /etc/kubernetes/bootstrap-kubelet.conf
cat >/var/lib/kubelet/config.yaml <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
clusterDNS: [10.96.0.10]
rotateCertificates: true
END
echo "KUBELET_KUBEADM_ARGS=--node-ip=$(hostname -I | cut -d' ' -f1)" >/var/lib/kubelet/kubeadm-flags.env
echo "# of $(hostname)" >/var/lib/kubelet/instance-config.yaml
systemctl restart kubelet.service
tries=0
until [ -s /etc/kubernetes/kubelet.conf ]; do
	tries=$((tries + 1))
	[ "$tries" -lt 600 ] || { echo "[ERROR kubelet-start]: the kubelet got no certificate"; exit 1; }
	sleep 0.1
done
rm /etc/kubernetes/bootstrap-kubelet.conf
`

// kubeadmKubelet replaces the kubelet of a kubeadm node. The program waits for the join, requests its own
// certificate with the bootstrap token, and sends heartbeats under the machine's name.
const kubeadmKubelet = `#!/usr/bin/python3
import http.client, os, socket, ssl, subprocess, sys, time

etc, pki = "/etc/kubernetes/", "/var/lib/kubelet/pki/"
current = pki + "kubelet-client-current.pem"
node = socket.gethostname()

if not os.path.exists("/var/lib/kubelet/config.yaml"):
    sys.exit("failed to load the kubelet's configuration")


def openssl(*arguments):
    return subprocess.run(("openssl",) + arguments, check=True, capture_output=True).stdout


def call(server, method, path, body, headers=None, credential=None):
    context = ssl.create_default_context(cafile=etc + "pki/ca.crt")
    if credential:
        context.load_cert_chain(credential)
    connection = http.client.HTTPSConnection(server.removeprefix("https://"), context=context, timeout=10)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def settings(path):
    with open(path) as file:
        return dict(line.strip().split(": ", 1) for line in file if ": " in line)


os.umask(0o077)
os.makedirs(pki, exist_ok=True)
if not os.path.exists(etc + "kubelet.conf"):
    if not os.path.exists(etc + "bootstrap-kubelet.conf"):
        sys.exit("neither kubelet.conf nor bootstrap-kubelet.conf is there")
    bootstrap = settings(etc + "bootstrap-kubelet.conf")
    key = openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout")
    with open(pki + "new.key", "wb") as file:
        file.write(key)
    request = openssl("req", "-new", "-key", pki + "new.key", "-subj", "/O=system:nodes/CN=system:node:" + node)
    status, certificate = call(bootstrap["server"], "POST", "` + csrPath + `", request, {"Authorization": "Bearer " + bootstrap["token"]})
    if status != 200:
        sys.exit("no certificate: %d %s" % (status, certificate))
    own = pki + time.strftime("kubelet-client-%Y-%m-%d-%H-%M-%S.pem")
    with open(own, "wb") as file:
        file.write(certificate + key)
    os.remove(pki + "new.key")
    os.symlink(own, current)
    with open(etc + "kubelet.conf.new", "w") as file:
        file.write("server: %s\nclient-certificate: %s\nclient-key: %s\n" % (bootstrap["server"], current, current))
    os.rename(etc + "kubelet.conf.new", etc + "kubelet.conf")
if not os.path.exists(pki + "kubelet.key"):
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pki + "kubelet.key", "-out", pki + "kubelet.crt", "-subj", "/CN=" + node)

server = settings(etc + "kubelet.conf")["server"]
while True:
    if not os.path.exists("/var/lib/kubelet/cpu_manager_state"):
        with open("/var/lib/kubelet/cpu_manager_state", "w") as file:
            file.write('{"policyName":"none"}')
    try:
        status, text = call(server, "PUT", "` + leasePath + `" + node, b"", credential=current)
        if status != 200:
            print("heartbeat refused:", status, text, file=sys.stderr)
    except OSError as failure:
        print("no heartbeat:", failure, file=sys.stderr)
    time.sleep(0.5)
`

// kubeadmUnit is the kubelet unit of the kubeadm packages. The image enables the unit, which restarts until the
// join has written the configuration.
const kubeadmUnit = `[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0
[Service]
ExecStart=/usr/local/bin/kubelet
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
`

// kubeadmDropIn is the drop-in of the packages. The join does not write this file.
const kubeadmDropIn = `[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
`
