// Package release tests the files that `make release-snapshot` builds.
package release
