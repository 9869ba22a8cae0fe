# Runs in the root directory of a patched system: programs of Debian's packages at the places of their own installers, which the
# list of packages does not know.
set -eu
cd "$(mktemp -d)"
apt-get -q -o APT::Sandbox::User=root download awscli ansible ansible-core
for package in *.deb; do dpkg-deb -x "$package" "${package%%_*}"; done
version=$(dpkg-deb -f awscli_*.deb Version)
cli=/usr/local/aws-cli/v2/${version%-*}
mkdir -p "$cli/dist"
cp -a awscli/usr/lib/python3/dist-packages/. "$cli/dist"
ln -s "$cli" /usr/local/aws-cli/v2/current
site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site"
cp -a ansible/usr/lib/python3/dist-packages/. ansible-core/usr/lib/python3/dist-packages/. "$site"
rm -r "$PWD"
