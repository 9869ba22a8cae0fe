// Package aws is a half of the provider for Amazon Web Services: cloud.ImageProvider, to which instances, snapshots and images belong, over the
// real SDK. The other half, groups and their launch templates, is to come; until then no cloud of the registry leads here.
//
// Facts are the SDK's own documentation's (service/ec2) unless their place names another source. Nothing here was seen on real AWS.
package aws
