package sandboxdir

import "fmt"

// CredentialsFile is a shared credentials file, as clients of AWS have it in ~/.aws.
const CredentialsFile = "credentials"

func (s *Directory) awsFiles(v Servers) []file {
	return []file{
		{CredentialsFile, fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", s.AWS.KeyID, s.AWS.Secret), 0o600},
		{ValuesFile, s.awsValues(v), 0o644},
	}
}

// awsValues are the values of Kamino's chart here, with an access key as in docs/reference/aws.md.
func (s *Directory) awsValues(v Servers) string {
	return fmt.Sprintf(`# For Kamino's chart in this sandbox:  helm install kamino charts/kamino -f %[1]s …
# The Secret, of the release's namespace:
#   kubectl create secret generic %[2]s --from-file=%[3]s --from-file=%[4]s
extraEnv:
- {name: AWS_SHARED_CREDENTIALS_FILE, value: /etc/kamino/%[5]s}
- {name: AWS_EC2_METADATA_DISABLED, value: "true"}
- {name: AWS_CA_BUNDLE, value: /etc/kamino/%[6]s}
- {name: AWS_ENDPOINT_URL, value: %[7]q}
extraVolumes:
- {name: cloud, secret: {secretName: %[2]s}}
extraVolumeMounts:
- {name: cloud, mountPath: /etc/kamino, readOnly: true}
%[8]s`, quote(s.Path(ValuesFile)), CloudSecret, quote(s.Path(CredentialsFile)), quote(s.Path(CAFile)), CredentialsFile, CAFile, v.Cloud, sharedPorts)
}

// awsEnvironment holds the variables for Kamino, the SDK's default chain and the aws command.
func (s *Directory) awsEnvironment(v Servers) []Variable {
	return []Variable{
		{"AWS_REGION", s.AWS.Region},
		{"AWS_DEFAULT_REGION", s.AWS.Region}, // older aws commands read this variable
		{"AWS_ACCESS_KEY_ID", s.AWS.KeyID},
		{"AWS_SECRET_ACCESS_KEY", s.AWS.Secret},
		{"AWS_ENDPOINT_URL", v.Cloud},
		{"AWS_CA_BUNDLE", s.Path(CAFile)},
		{"AWS_EC2_METADATA_DISABLED", "true"},
		// Unset the variables of another account.
		{"AWS_PROFILE", ""}, {"AWS_SESSION_TOKEN", ""}, {"AWS_ROLE_ARN", ""}, {"AWS_WEB_IDENTITY_TOKEN_FILE", ""},
	}
}
