// Package aws is the provider for Amazon Web Services. ImageProvider handles instances, snapshots and images.
// PoolProvider handles Auto Scaling groups and launch templates.
//
// The source of a fact is the SDK's documentation (service/ec2), unless the comment names another source. No fact was
// checked on real AWS.
package aws
