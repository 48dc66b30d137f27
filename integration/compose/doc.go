// Package compose tries what a deployment is made of, without containers: the server configuration of docs/nats in
// three real nats-server processes, and the services of docker-compose.yml as processes of the jetcrew binary, with
// the commands, users and settings that stand in that file.
package compose
