// Package metrics defines Kamino's Prometheus metrics: names, labels with closed sets, and buckets. docs/reference/metrics.md
// describes the metrics, and a test compares the page with this package.
//
// The package never acts. The pure function Between counts captures from the status before and after a pass. Decorators
// count calls to the cloud, and passes. The labeler counts nodes, and the Decider counts candidates. The package sends no
// request to the API server. The package asks the cloud only for the version in each pool's recipe, twice per hour.
//
// Each process counts its own work from its start: a restart begins at zero, as Prometheus expects of counters, and does
// not count earlier endings again.
package metrics
