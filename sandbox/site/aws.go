package site

// awsEnvironment is what Kamino, the SDK's default chain and the aws command read.
func (s *Site) awsEnvironment(v Servers) []Variable {
	return []Variable{
		{"AWS_REGION", s.AWS.Region},
		{"AWS_DEFAULT_REGION", s.AWS.Region}, // older aws commands read this one
		{"AWS_ACCESS_KEY_ID", s.AWS.KeyID},
		{"AWS_SECRET_ACCESS_KEY", s.AWS.Secret},
		{"AWS_ENDPOINT_URL", v.Cloud},
		{"AWS_CA_BUNDLE", s.Path(CAFile)},
		{"AWS_EC2_METADATA_DISABLED", "true"},
		// What a person has set for another account.
		{"AWS_PROFILE", ""}, {"AWS_SESSION_TOKEN", ""}, {"AWS_ROLE_ARN", ""}, {"AWS_WEB_IDENTITY_TOKEN_FILE", ""},
	}
}
