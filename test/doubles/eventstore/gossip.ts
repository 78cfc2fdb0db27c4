/** The method Read of the Gossip service: the nodes of the cluster, and which of them leads. */
import gossipPb from '@eventstore/db-client/generated/gossip_pb.js'
import type sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import type { handleUnaryCall } from '@grpc/grpc-js'
import { toUuid } from './wire.ts'

/** A node from the others' view. */
export interface Member {
  id: string
  host: string
  port: number
  isAlive: boolean
  isLeader: boolean
}

const { VNodeState } = gossipPb.MemberInfo

export function gossip(
  members: () => readonly Member[],
): handleUnaryCall<sharedPb.Empty, gossipPb.ClusterInfo> {
  return (_call, callback) => {
    const known = members()
    const hasLeader = known.some(({ isLeader }) => isLeader)
    const info = new gossipPb.ClusterInfo()
    for (const { id, host, port, isAlive, isLeader } of known) {
      const state = isLeader ? VNodeState.LEADER : hasLeader ? VNodeState.FOLLOWER : VNodeState.UNKNOWN
      const member = new gossipPb.MemberInfo().setInstanceId(toUuid(id, false)).setState(state)
      member.setIsAlive(isAlive).setTimeStamp(String(BigInt(Date.now()) * 10_000n))
      member.setHttpEndPoint(new gossipPb.EndPoint().setAddress(host).setPort(port))
      info.addMembers(member)
    }
    callback(null, info)
  }
}
