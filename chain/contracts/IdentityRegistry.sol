// SPDX-License-Identifier: MIT
pragma solidity ^0.8.24;

/// As much of the ERC-8004 identity registry as a test needs to have agents come,
/// change hands and go. Names, events and errors are those of the deployed ones.
contract IdentityRegistry {
    event Registered(uint256 indexed agentId, string agentURI, address indexed owner);
    event Transfer(address indexed from, address indexed to, uint256 indexed tokenId);

    error ERC721NonexistentToken(uint256 tokenId);
    error ERC721IncorrectOwner(address sender, uint256 tokenId, address owner);
    error ERC721InvalidReceiver(address receiver);

    uint256 private next;
    mapping(uint256 => address) private owners;
    mapping(uint256 => string) private uris;

    /// Gives the sender an agent. The first has the id 0.
    function register(string calldata agentURI) external returns (uint256 agentId) {
        agentId = next++;
        mint(agentId, agentURI);
    }

    /// Gives the sender the agent of an id of its choice, which the deployed
    /// registries do not: so that a test need not register 2^256 agents.
    function registerAs(uint256 agentId, string calldata agentURI) external {
        require(owners[agentId] == address(0), "taken");
        mint(agentId, agentURI);
    }

    function mint(uint256 agentId, string calldata agentURI) private {
        owners[agentId] = msg.sender;
        uris[agentId] = agentURI;
        emit Transfer(address(0), msg.sender, agentId);
        emit Registered(agentId, agentURI, msg.sender);
    }

    function ownerOf(uint256 tokenId) public view returns (address owner) {
        owner = owners[tokenId];
        if (owner == address(0)) revert ERC721NonexistentToken(tokenId);
    }

    function tokenURI(uint256 tokenId) external view returns (string memory) {
        ownerOf(tokenId);
        return uris[tokenId];
    }

    function transferFrom(address from, address to, uint256 tokenId) external {
        if (to == address(0)) revert ERC721InvalidReceiver(to);
        move(from, to, tokenId);
    }

    function burn(uint256 tokenId) external {
        move(msg.sender, address(0), tokenId);
    }

    function move(address from, address to, uint256 tokenId) private {
        address owner = ownerOf(tokenId);
        if (owner != from || owner != msg.sender) revert ERC721IncorrectOwner(msg.sender, tokenId, owner);
        owners[tokenId] = to;
        emit Transfer(from, to, tokenId);
    }
}
