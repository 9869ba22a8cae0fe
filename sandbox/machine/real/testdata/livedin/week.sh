# Runs on the booted machine: a week of logs, and one use of each engine.
set -eu
for day in 1 2 3 4 5 6 7; do
	for i in $(seq 60); do
		logger -t kubelet "sync of pod web-$i on day $day took $((i * day)) ms"
		logger -p auth.info -t sshd "Connection closed by 10.0.3.$i port 4$day$i [preauth]"
		logger -p daemon.warning -t app "health check $i failed: token is missing"
	done
	logrotate -f /etc/logrotate.conf
	journalctl -q --rotate
done
systemctl -q is-active docker.service
podman info >/dev/null
ovs-vsctl show >/dev/null
test -s /var/log/syslog.1
test -s /var/lib/snapd/state.json
